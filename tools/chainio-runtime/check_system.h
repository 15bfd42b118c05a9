// What this machine offers to the engines, and how to get the rest.
#pragma once
#include <string>
#include <vector>

namespace chainio::runtime_tool {

struct SystemFact {
    std::string name;
    std::string state;   // "ok", "limited", "missing", "unknown"
    std::string detail;  // what was found
    std::string remedy;  // how to get more; empty when there is nothing to get
};

std::vector<SystemFact> check_system();
std::string facts_text(const std::vector<SystemFact>& facts);
std::string facts_json(const std::vector<SystemFact>& facts);

}  // namespace chainio::runtime_tool
