// One request line of the service, understood: {"id": 7, "chain": "lookup", "args": {"db": "main.db", "key": 42}}.
#pragma once
#include <expected>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/engine/engine.h"
#include "tools/chainio/call_args.h"

namespace chainio::runtime_tool {

struct OpenFile {
    std::string path, name;  // as given, and its last component; requests use either
    std::uint32_t file_class = 0;
    engine::FileHandle handle = 0;
};

enum class Op : std::uint8_t { call, stats, reload, invalidate };

struct Request {
    nlohmann::json id;
    Op op = Op::call;
    std::uint32_t chain = 0;
    std::vector<engine::Argument> args;
    std::vector<tool::Value> values;  // what the byte arguments point to
};

struct RequestError {
    nlohmann::json id;
    std::string message;
};

std::expected<Request, RequestError> parse_request(std::string_view line, const spec::Loaded& spec,
                                                   const std::vector<OpenFile>& files);

// One line; of what is no UTF-8 (names of files need not be) there is U+FFFD in it.
std::string json_line(const nlohmann::ordered_json& json);
std::string error_line(const nlohmann::json& id, const std::string& message);
std::string completion_line(const nlohmann::json& id, const spec::Loaded& spec, const engine::Completion& completion);

}  // namespace chainio::runtime_tool
