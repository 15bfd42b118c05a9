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

// Of the interfaces, too, that are named. Nothing is attached to them, or taken off.
std::vector<SystemFact> check_system(const std::vector<std::string>& interfaces);
// Whether services can be served, by all the interfaces that are named.
bool can_serve(const std::vector<SystemFact>& facts);
std::string facts_text(const std::vector<SystemFact>& facts);
std::string facts_json(const std::vector<SystemFact>& facts);

}  // namespace chainio::runtime_tool
