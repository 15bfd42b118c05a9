#include "tools/chainio-runtime/request.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "compiler/diag/utf8.h"
#include "tools/chainio/results.h"

namespace chainio::runtime_tool {
namespace {

using Json = nlohmann::json;

constexpr int kDeepest = 32;  // levels of a request

using OpenFiles = std::vector<const OpenFile*>;

// By which word each can be named: the last part of its path, or all of it where others have the same last part.
std::vector<std::string> words_of(const OpenFiles& open) {
    std::map<std::string_view, unsigned> times;
    for (const OpenFile* file : open) times[file->name]++;
    std::vector<std::string> words;
    for (const OpenFile* file : open) words.push_back(times[file->name] == 1 ? file->name : file->path);
    return words;
}

// A path names its file, the last part of one only if no other file of the class has it as well.
std::expected<const OpenFile*, std::string> file_called(std::string_view word, const OpenFiles& open,
                                                        std::string_view file_class) {
    OpenFiles called;
    for (const OpenFile* file : open) {
        if (file->path == word) return file;
        if (file->name == word) called.push_back(file);
    }
    if (called.empty())
        return std::unexpected(fmt::format("no file '{}' is open for class '{}'{}", word, file_class,
                                           tool::suggestion(word, words_of(open), "open files")));
    const auto is_first = [&](const OpenFile* file) { return file->path == called.front()->path; };
    if (std::ranges::all_of(called, is_first)) return called.front();
    std::vector<std::string> paths;
    for (const OpenFile* file : called) paths.push_back(file->path);
    return std::unexpected(fmt::format("several open files of class '{}' are called '{}'; name one of them: {}",
                                       file_class, word, fmt::join(paths, ", ")));
}

std::expected<engine::Argument, std::string> file_argument(const ir::Module& module, const ir::Param& param,
                                                           const Json* given, const std::vector<OpenFile>& files) {
    OpenFiles open;
    for (const OpenFile& file : files)
        if (file.file_class == param.file_class) open.push_back(&file);
    const auto fail = [&](const std::string& why) {
        return std::unexpected(fmt::format("parameter '{}': {}", param.name, why));
    };
    const std::string& file_class = module.files[param.file_class].name;
    if (given == nullptr && open.size() == 1) return engine::Argument::file(open.front()->handle);
    if (given == nullptr && open.empty())
        return fail(fmt::format("no file is open for class '{}'; start the daemon with --file {}=PATH", file_class,
                                file_class));
    if (given == nullptr)
        return fail(fmt::format("{} files are open for class '{}'; name one of them", open.size(), file_class));
    if (!given->is_string()) return fail("the name of a file is wanted, as a string");
    const auto found = file_called(given->get_ref<const std::string&>(), open, file_class);
    if (!found) return fail(found.error());
    return engine::Argument::file((*found)->handle);
}

std::expected<tool::Value, std::string> value_of(const ir::Param& param, const Json& given) {
    const bool is_scalar = param.kind == ir::Param::Kind::scalar;
    // Who has but the 53 bits of a double for its numbers gives larger ones so.
    if (is_scalar && given.is_string()) return tool::parse_value(param, given.get<std::string>());
    if (is_scalar && given.is_number_integer()) return tool::parse_value(param, given.dump());
    // A string is its own bytes, whatever it begins with: who passes on what others have sent need not look at it.
    if (!is_scalar && given.is_string()) return tool::bytes_value(param, given.get_ref<const std::string&>());
    if (!is_scalar && given.is_object() && given.size() == 1 && given.contains("hex") && given["hex"].is_string())
        return tool::hex_value(param, given["hex"].get_ref<const std::string&>());
    return std::unexpected(fmt::format("parameter '{}': {} is wanted", param.name,
                                       is_scalar ? "an integer of at most 64 bits" : "a string or {\"hex\": \"…\"}"));
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

// What a JSON value does not say any more once it has been read.
class Form {
  public:
    bool take(int depth, Json::parse_event_t event, const Json& value) {
        // What is too deep is not kept, as whoever goes through it would do so by recursion.
        deep_ = deep_ || depth > kDeepest;
        if (deep_) return false;
        const auto level = static_cast<std::size_t>(depth);
        if (event == Json::parse_event_t::object_start) names_[level + 1].clear();
        if (event == Json::parse_event_t::key && !names_[level].insert(value.get<std::string>()).second)
            is_twice(depth, value.get<std::string>());
        return true;
    }
    bool is_deep() const { return deep_; }
    bool has_two_ids() const { return two_ids_; }
    const std::optional<std::string>& twice() const { return twice_; }  // the first member that is

  private:
    void is_twice(int depth, const std::string& name) {
        two_ids_ = two_ids_ || (depth == 1 && name == "id");
        if (!twice_) twice_ = name;
    }

    bool deep_ = false, two_ids_ = false;
    std::array<std::set<std::string>, kDeepest + 2> names_;  // of the object that is open at each level
    std::optional<std::string> twice_;
};

// Why it is none that can be given back as it was; empty when it can.
std::string wrong_id(const Json& id) {
    if (!id.is_string() && !id.is_number() && !id.is_null()) return "an \"id\" is a string or a number";
    // An integer of more bits has been read as a number with a fraction, which is another one.
    if (id.is_number_float() && std::abs(id.get<double>()) >= 0x1p63)
        return "an \"id\" that is a number has at most 64 bits; give a longer one as a string";
    return "";
}

// What is wrong with a line that is none of ours, whichever program has put it together; empty: it is JSON.
std::string not_json(std::string_view line) {
    if (const std::size_t at = diag::first_bad_byte(line); at != std::string_view::npos)
        return fmt::format("; byte {} of this one is no UTF-8: give bytes of any kind as {{\"hex\": \"…\"}}", at + 1);
    try {
        static_cast<void>(Json::parse(line));
    } catch (const Json::parse_error& error) {
        if (error.byte > line.size()) return "; this one ends before its object does";
        return fmt::format("; byte {} of this one is not what JSON has there", error.byte);
    } catch (const Json::exception&) {
        return "; this one has a number that is too large";
    }
    return "";
}

std::string wrong_member(const Json& json) {
    const bool has_op = json.contains("op");
    const std::vector<std::string> names =
        has_op ? std::vector<std::string>{"id", "op"} : std::vector<std::string>{"id", "chain", "args", "op"};
    for (const auto& item : json.items()) {
        if (std::ranges::find(names, item.key()) != names.end()) continue;
        return fmt::format("a request{} has no member '{}'{}", has_op ? " with an \"op\"" : "", item.key(),
                           tool::suggestion(item.key(), names, "members"));
    }
    return "";
}

}  // namespace

std::expected<Request, RequestError> parse_request(std::string_view line, const spec::Loaded& spec,
                                                   const std::vector<OpenFile>& files) {
    Form form;
    const auto taken = [&](int depth, Json::parse_event_t event, const Json& value) {
        return form.take(depth, event, value);
    };
    const Json json = Json::parse(line, taken, false);
    Request request;
    const auto fail = [&](std::string message) {
        return std::unexpected(RequestError{request.id, std::move(message)});
    };
    if (form.is_deep()) return fail(fmt::format("a request has at most {} levels of objects and lists", kDeepest));
    if (!json.is_object())
        return fail("a request is one line with a JSON object: {\"chain\": …, \"args\": {…}}" + not_json(line));
    if (json.contains("id") && !form.has_two_ids()) {
        if (const std::string wrong = wrong_id(json["id"]); !wrong.empty()) return fail(wrong);
        request.id = json["id"];
    }
    if (form.twice()) return fail(fmt::format("'{}' is there twice; keep one of the two", *form.twice()));
    if (const std::string wrong = wrong_member(json); !wrong.empty()) return fail(wrong);
    if (json.contains("op")) {
        request.op = json["op"] == "reload" ? Op::reload : json["op"] == "invalidate" ? Op::invalidate : Op::stats;
        if (request.op == Op::stats && json["op"] != "stats")
            return fail("an \"op\" is \"stats\", \"reload\" or \"invalidate\"");
        return request;
    }
    if (!json.contains("chain")) return fail("\"chain\" is missing");
    if (!json["chain"].is_string()) return fail("\"chain\" is the name of a chain, as a string");
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
        tool::result_json(module, module.chains[completion.chain], tool::keep(completion), nullptr)));
    return json_line(json);
}

}  // namespace chainio::runtime_tool
