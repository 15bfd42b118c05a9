#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "tools/chainio/testing/suite.h"
#include "tools/chainio/testing/yaml_values.h"

namespace chainio::testing {
namespace {

FileSource read_file_source(const YAML::Node& node) {
    FileSource source;
    if (node.IsScalar()) {
        source.path = node.Scalar();
        return source;
    }
    if (!node.IsMap() || !node["of"]) {
        source.bytes = read_bytes(node, "a file's content");
        return source;
    }
    check_keys(node, {"of", "size", "patch"}, "a changed copy");
    source.of = read_string(node["of"], "of");
    if (node["size"]) source.size = read_count(node["size"], "size");
    if (node["patch"] && !node["patch"].IsSequence())
        wrong(node["patch"], "patch is a list of { at, bytes }; write [{ at: 8, bytes: { hex: ff } }]");
    for (const auto& item : node["patch"]) {
        check_keys(item, {"at", "bytes"}, "a patch");
        if (!item["at"] || !item["bytes"]) wrong(item, "a patch says `at` where and with which `bytes`");
        source.patches.push_back({read_count(item["at"], "at"), read_bytes(item["bytes"], "bytes")});
    }
    return source;
}

ExpectedRead read_expected_read(const YAML::Node& node) {
    check_keys(node, {"file", "at", "for"}, "a read");
    ExpectedRead read;
    if (node["file"]) read.file = read_string(node["file"], "file");
    if (node["at"]) read.at = read_count(node["at"], "at");
    if (node["for"]) read.length = read_count(node["for"], "for");
    return read;
}

ExpectedPrefetch read_expected_prefetch(const YAML::Node& node) {
    check_keys(node, {"via", "args", "files", "sibling", "path", "same", "mark", "mark_via", "at", "for"},
               "a prefetch");
    ExpectedPrefetch prefetch;
    if (node["via"]) prefetch.chain = read_string(node["via"], "via");
    if (node["args"]) prefetch.args = read_integers(node["args"], "args");
    if (node["files"]) prefetch.files = read_string(node["files"], "files");
    if (node["sibling"]) prefetch.sibling = read_string(node["sibling"], "sibling");
    if (node["path"]) prefetch.path = read_bytes(node["path"], "path");
    if (node["mark"]) prefetch.mark = read_integer(node["mark"], "mark");
    if (node["mark_via"]) prefetch.mark_via = read_string(node["mark_via"], "mark_via");
    if (node["same"]) prefetch.same = node["same"].as<bool>();
    if (node["at"]) prefetch.at = read_integer(node["at"], "at");
    if (node["for"]) prefetch.length = read_count(node["for"], "for");
    return prefetch;
}

// A result is compared after `ok` alone, so that one beside another outcome would hold whatever it says.
void check_has_result(const YAML::Node& node, const Expected& expected) {
    if (expected.outcome == "ok") return;
    for (const char* key : {"value", "bytes", "starts_with", "length", "integers"}) {
        if (node[key])
            wrong(node[key],
                  fmt::format("after {} there is no result, so `{}` is never compared; remove one of the two",
                              expected.outcome, key));
    }
}

void read_expected_result(const YAML::Node& node, Expected& expected) {
    check_has_result(node, expected);
    if (node["value"]) expected.value = read_integer(node["value"], "value");
    if (node["bytes"]) expected.bytes = read_bytes(node["bytes"], "bytes");
    if (node["starts_with"]) expected.starts_with = read_bytes(node["starts_with"], "starts_with");
    if (node["length"]) expected.length = read_count(node["length"], "length");
    if (node["integers"]) expected.integers = read_integers(node["integers"], "integers");
}

Expected read_expected(const YAML::Node& node) {
    check_keys(node,
               {"outcome", "value", "bytes", "starts_with", "length", "integers", "reads", "read_count", "most_reads",
                "prefetches", "prefetch_count"},
               "expect");
    Expected expected;
    if (const auto outcome = node["outcome"]) {
        expected.outcome = read_string(outcome, "outcome");
        expected.place = fmt::format("{}:{}", outcome.Mark().line + 1, outcome.Mark().column + 1);
    }
    read_expected_result(node, expected);
    if (node["read_count"]) expected.read_count = read_count(node["read_count"], "read_count");
    if (node["most_reads"]) expected.most_reads = read_count(node["most_reads"], "most_reads");
    if (node["prefetch_count"]) expected.prefetch_count = read_count(node["prefetch_count"], "prefetch_count");
    if (const auto reads = node["reads"]) {
        if (!reads.IsSequence())
            wrong(reads, "reads is a list of { file, at, for }; read_count gives their number alone");
        expected.reads.emplace();
        for (const auto& item : reads) expected.reads->push_back(read_expected_read(item));
    }
    if (const auto prefetches = node["prefetches"]) {
        if (!prefetches.IsSequence())
            wrong(prefetches, "prefetches is a list; prefetch_count gives their number alone");
        expected.prefetches.emplace();
        for (const auto& item : prefetches) expected.prefetches->push_back(read_expected_prefetch(item));
    }
    return expected;
}

Event read_event(const YAML::Node& node) {
    check_keys(node, {"file", "bytes", "at", "for", "total", "mark", "last_mark"}, "an event");
    if (!node["file"] == !node["bytes"])
        wrong(node, "an event has either the `file` that was read or the `bytes` that arrived");
    Event event;
    if (node["file"]) event.file = read_string(node["file"], "file");
    if (node["bytes"]) event.bytes = read_bytes(node["bytes"], "bytes");
    if (node["at"]) event.at = read_integer(node["at"], "at");
    if (node["for"]) event.length = read_count(node["for"], "for");
    if (node["total"]) event.total = read_count(node["total"], "total");
    if (node["mark"]) event.mark = read_integer(node["mark"], "mark");
    if (node["last_mark"]) event.last_mark = read_integer(node["last_mark"], "last_mark");
    return event;
}

Case read_case(const YAML::Node& node) {
    check_keys(node, {"name", "chain", "files", "args", "event", "expect"}, "a case");
    if (!node["chain"]) wrong(node, "a case names its `chain`");
    if (!node["expect"]) wrong(node, "a case says what to `expect`; one that expects nothing tests nothing");
    Case test;
    test.line = static_cast<unsigned>(node.Mark().line) + 1;
    test.chain = read_string(node["chain"], "chain");
    test.name = node["name"] ? read_string(node["name"], "name") : fmt::format("{} (line {})", test.chain, test.line);
    if (node["files"]) check_named(node["files"], "files of a case");
    if (node["args"]) check_named(node["args"], "args");
    for (const auto& entry : node["files"])
        test.files[entry.first.Scalar()] = read_string(entry.second, "a file of a case");
    for (const auto& entry : node["args"]) test.args[entry.first.Scalar()] = read_value(entry.second, "an argument");
    if (node["event"]) test.event = read_event(node["event"]);
    test.expected = read_expected(node["expect"]);
    return test;
}

// A file that is not named under `files` is a path of its own.
void check_names(const YAML::Node& root, Suite& suite) {
    const auto known = [&](const std::string& name) {
        if (!suite.files.contains(name)) suite.files[name].path = name;
    };
    for (const auto& [name, source] : suite.files) {
        if (!source.of.empty() && (source.of == name || !suite.files.contains(source.of))) {
            wrong(root["files"][name],
                  fmt::format("'{}' is a copy of '{}', which is not among the files", name, source.of));
        }
        if (!source.of.empty() && !suite.files[source.of].of.empty())
            wrong(root["files"][name], "a copy of a copy; name the original");
    }
    for (const auto& test : suite.cases) {
        for (const auto& [parameter, file] : test.files) known(file);
        if (test.event && !test.event->file.empty()) known(test.event->file);
    }
}

Suite read_root(const YAML::Node& root, const std::string& path) {
    check_keys(root, {"spec", "options", "needs", "commands", "files", "cases"}, "a test file");
    if (!root["spec"]) wrong(root, "a test file names its `spec`: a .chain, .yaml or .bpf.o beside it");
    if (!root["cases"] || !root["cases"].IsSequence()) wrong(root, "a test file has a list of `cases`");
    if (root["cases"].size() == 0)
        wrong(root["cases"],
              "the list of `cases` is empty, so that nothing is tested; a case is { chain: …, expect: … }");
    Suite suite;
    suite.path = path;
    suite.spec = read_string(root["spec"], "spec");
    if (root["options"]) suite.options = read_strings(root["options"], "options");
    if (root["needs"]) suite.needs = read_strings(root["needs"], "needs");
    if (root["commands"]) suite.commands = read_strings(root["commands"], "commands");
    if (root["files"]) check_named(root["files"], "files");
    for (const auto& entry : root["files"]) suite.files[entry.first.Scalar()] = read_file_source(entry.second);
    std::set<std::string> names;
    for (const auto& item : root["cases"]) {
        suite.cases.push_back(read_case(item));
        if (!names.insert(suite.cases.back().name).second)
            wrong(item, fmt::format("two cases are named '{}'", suite.cases.back().name));
    }
    check_names(root, suite);
    return suite;
}

// The parser's words name no remedy. Before an entry of a list it takes a tab, and complains about what follows.
std::string not_yaml(std::string_view text, int line, const std::string& said) {
    for (; line > 1; line--) text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
    const bool tab = said.contains("tab") || text.substr(0, text.find_first_not_of(" \t")).contains('\t');
    return fmt::format("this is not YAML: {}; {}", said,
                       tab ? "indent with blanks, not with tabs"
                           : "texts with `: ` or ` #` in them, or that begin with a sign, stand in quotes");
}

}  // namespace

std::expected<Suite, SuiteError> read_suite(const std::string& path) {
    std::error_code unknown;
    if (std::filesystem::is_directory(path, unknown))
        return std::unexpected(
            SuiteError{fmt::format("{}: is a directory, not a test file; name a file in it", path), true});
    std::ifstream in(path, std::ios::binary);
    std::string text;
    for (std::array<char, 65'536> piece; in.read(piece.data(), piece.size()) || in.gcount() > 0;)
        text.append(piece.data(), static_cast<std::size_t>(in.gcount()));
    if (!in.eof())
        return std::unexpected(SuiteError{fmt::format("{}: cannot be read: {}", path, std::strerror(errno)), true});
    try {
        const YAML::Node root = YAML::Load(text);
        if (!root.IsMap())
            return std::unexpected(
                SuiteError{fmt::format("{}:1:1: a test file is a map with spec, files and cases", path)});
        return read_root(root, path);
    } catch (const YAML::Exception& error) {
        if (path.ends_with(".chain"))
            return std::unexpected(
                SuiteError{fmt::format("{}: is a spec; name its test file, which is YAML with `spec: {}` and its cases",
                                       path, std::filesystem::path(path).filename().string())});
        const bool placed = !error.mark.is_null();
        const int line = placed ? error.mark.line + 1 : 1;
        const bool is_text = dynamic_cast<const YAML::ParserException*>(&error) != nullptr;
        return std::unexpected(SuiteError{fmt::format("{}:{}:{}: {}", path, line, placed ? error.mark.column + 1 : 1,
                                                      is_text ? not_yaml(text, line, error.msg) : error.msg)});
    }
}

std::string quoted(const Bytes& bytes) {
    constexpr std::size_t kMost = 64;
    bool text = !bytes.empty();
    for (const std::uint8_t byte : bytes) text = text && byte >= 0x20 && byte < 0x7f;
    std::string shown;
    for (std::size_t i = 0; i < bytes.size() && i < kMost; i++) {
        if (text) {
            shown.push_back(static_cast<char>(bytes[i]));
        } else {
            shown += fmt::format("{}{:02x}", i > 0 ? " " : "", bytes[i]);
        }
    }
    const std::string rest = bytes.size() > kMost ? fmt::format("… ({} bytes)", bytes.size()) : "";
    return text ? fmt::format("\"{}\"{}", shown, rest) : fmt::format("<{}>{}", shown, rest);
}

}  // namespace chainio::testing
