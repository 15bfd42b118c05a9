#include "tools/chainio-runtime/request.h"

#include <fmt/format.h>

#include "tools/chainio/results.h"

namespace chainio::runtime_tool {
namespace {

using Json = nlohmann::json;

constexpr int kDeepest = 32;  // levels of a request

std::expected<engine::Argument, std::string> file_argument(const ir::Module& module, const ir::Param& param,
                                                           const Json* given, const std::vector<OpenFile>& files) {
    std::vector<std::string> names;
    const OpenFile* only = nullptr;
    for (const OpenFile& file : files) {
        if (file.file_class != param.file_class) continue;
        if (given != nullptr && (*given == file.path || *given == file.name))
            return engine::Argument::file(file.handle);
        only = &file;
        names.push_back(file.name);
    }
    if (given == nullptr && names.size() == 1) return engine::Argument::file(only->handle);
    if (given != nullptr && !given->is_string())
        return std::unexpected(fmt::format("parameter '{}': the name of a file is wanted, as a string", param.name));
    const std::string word = given != nullptr ? given->get<std::string>() : "";
    return std::unexpected(fmt::format("parameter '{}': no file '{}' is open for class '{}'{}", param.name, word,
                                       module.files[param.file_class].name,
                                       tool::suggestion(word, names, "open files")));
}

std::expected<tool::Value, std::string> value_of(const ir::Param& param, const Json& given) {
    if (given.is_string()) return tool::parse_value(param, given.get<std::string>());
    if (param.kind == ir::Param::Kind::scalar && given.is_number_integer())
        return tool::parse_value(param, given.dump());
    if (param.kind == ir::Param::Kind::bytes && given.is_object() && given.contains("hex") &&
        given["hex"].is_string()) {
        return tool::parse_value(param, "hex:" + given["hex"].get<std::string>());
    }
    return std::unexpected(
        fmt::format("parameter '{}': {} is wanted", param.name,
                    param.kind == ir::Param::Kind::scalar ? "an integer" : "a string or {\"hex\": \"…\"}"));
}

std::expected<void, std::string> bind(Request& request, const ir::Module& module, const ir::Chain& chain,
                                      const Json& args, const std::vector<OpenFile>& files) {
    std::vector<std::string> names;
    for (const auto& param : chain.params) names.push_back(param.name);
    for (const auto& item : args.items()) {
        if (std::find(names.begin(), names.end(), item.key()) != names.end()) continue;
        return std::unexpected(fmt::format("chain '{}' has no parameter '{}'{}", chain.name, item.key(),
                                           tool::suggestion(item.key(), names, "parameters")));
    }
    request.values.resize(chain.params.size());
    for (std::size_t i = 0; i < chain.params.size(); i++) {
        const ir::Param& param = chain.params[i];
        const Json* given = args.contains(param.name) ? &args[param.name] : nullptr;
        if (param.kind == ir::Param::Kind::file) {
            auto file = file_argument(module, param, given, files);
            if (!file) return std::unexpected(file.error());
            request.args.push_back(*file);
            continue;
        }
        if (given == nullptr) {
            return std::unexpected(fmt::format("parameter '{}' is not given; the chain is {}", param.name,
                                               tool::signature(module, chain)));
        }
        auto value = value_of(param, *given);
        if (!value) return std::unexpected(value.error());
        request.values[i] = std::move(*value);
        request.args.push_back(param.kind == ir::Param::Kind::scalar
                                   ? engine::Argument::scalar(request.values[i].scalar)
                                   : engine::Argument::of_bytes(request.values[i].bytes));
    }
    return {};
}

}  // namespace

std::expected<Request, RequestError> parse_request(std::string_view line, const spec::Loaded& spec,
                                                   const std::vector<OpenFile>& files) {
    bool deep = false;  // what is too deep is not kept, as whoever goes through it would do so by recursion
    const auto shallow = [&](int depth, Json::parse_event_t, const Json&) {
        deep = deep || depth > kDeepest;
        return !deep;
    };
    const Json json = Json::parse(line, shallow, false);
    Request request;
    const auto fail = [&](std::string message) {
        return std::unexpected(RequestError{request.id, std::move(message)});
    };
    if (deep) return fail(fmt::format("a request has at most {} levels of objects and lists", kDeepest));
    if (!json.is_object()) return fail("a request is one line with a JSON object: {\"chain\": …, \"args\": {…}}");
    if (json.contains("id")) {
        if (!json["id"].is_string() && !json["id"].is_number() && !json["id"].is_null())
            return fail("an \"id\" is a string or a number");
        request.id = json["id"];
    }
    if (json.contains("op")) {
        request.op = json["op"] == "reload" ? Op::reload : json["op"] == "invalidate" ? Op::invalidate : Op::stats;
        if (request.op == Op::stats && json["op"] != "stats")
            return fail("an \"op\" is \"stats\", \"reload\" or \"invalidate\"");
        return request;
    }
    if (!json.contains("chain") || !json["chain"].is_string()) return fail("\"chain\" is missing");
    const std::string name = json["chain"].get<std::string>();
    const auto index = spec.find_chain(name);
    if (!index || spec.module().chains[*index].mode != ir::ChainMode::call) {
        std::vector<std::string> names;
        for (const auto& chain : spec.module().chains) {
            if (chain.mode == ir::ChainMode::call) names.push_back(chain.name);
        }
        return fail(fmt::format("there is no call chain '{}'{}", name, tool::suggestion(name, names, "call chains")));
    }
    request.chain = *index;
    const Json args = json.contains("args") ? json["args"] : Json::object();
    if (!args.is_object()) return fail("\"args\" is an object with the parameters by their names");
    auto bound = bind(request, spec.module(), spec.module().chains[*index], args, files);
    if (!bound) return fail(bound.error());
    return request;
}

std::string json_line(const nlohmann::ordered_json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string error_line(const Json& id, const std::string& message) {
    nlohmann::ordered_json json;
    json["id"] = id;
    json["error"] = message;
    return json_line(json);
}

std::string completion_line(const Json& id, const spec::Loaded& spec, const engine::Completion& completion) {
    nlohmann::ordered_json json;
    json["id"] = id;
    const auto& module = spec.module();
    json.update(nlohmann::ordered_json::parse(
        tool::result_json(module, module.chains[completion.chain], tool::keep(completion), "")));
    return json_line(json);
}

}  // namespace chainio::runtime_tool
