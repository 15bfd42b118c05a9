#include "tools/chainc/outputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "compiler/syntax/parse.h"
#include "tools/chainc/collisions.h"
#include "tools/chainc/deps.h"
#include "tools/chainc/files.h"
#include "tools/chainc/pipeline.h"
#include "tools/chainc/source_map.h"

namespace chainio::chainc {
namespace {

struct Kind {
    std::string_view name;
    std::string_view stage;  // the last one that it needs
    std::string_view extension;
    std::string (*text)(Compilation&);  // null: the artifact itself
};

std::string emit_ast(Compilation& c) { return syntax::dump_ast(*c.root->tree); }
std::string emit_chain(Compilation& c) { return syntax::print_chain(*c.root->tree); }
std::string emit_yaml(Compilation& c) { return syntax::print_yaml(*c.root->tree); }
std::string emit_ir(Compilation& c) { return ir::dump(c.artifact.module); }
std::string emit_dot(Compilation& c) { return backends::emit_dot(c.artifact.module); }
std::string emit_c(Compilation& c) { return backends::emit_c(c.artifact); }
std::string emit_config(Compilation& c) { return backends::emit_config(c.artifact); }

constexpr std::array kinds{
    Kind{"ast", "parse", ".ast", emit_ast},        Kind{"chain", "parse", ".chain", emit_chain},
    Kind{"yaml", "parse", ".yaml", emit_yaml},     Kind{"ir", "passes", ".ir", emit_ir},
    Kind{"dot", "passes", ".dot", emit_dot},       Kind{"c", "layout", ".c", emit_c},
    Kind{"config", "stack", ".json", emit_config}, Kind{"bpf", "stack", ".bpf.o", nullptr},
};

const Kind& kind_named(std::string_view name) { return *std::ranges::find(kinds, name, &Kind::name); }

// Without --emit, the artifact, unless the run is only about what it prints.
std::vector<std::string> wanted(const Options& o) {
    if (!o.emit.empty()) return o.emit;
    const bool only_prints =
        o.check || ((o.report != ReportMode::off || o.verify != VerifyMode::off) && o.output.empty());
    if (only_prints) return {};
    return {"bpf"};
}

std::string stem(const Options& o) {
    const std::string& input = o.inputs.front();
    return input == "-" ? "main" : std::filesystem::path(input).stem().string();
}

std::string without_object_suffix(const std::string& name) {
    for (const std::string_view suffix : {".bpf.o", ".o"}) {
        if (name.size() > suffix.size() && name.ends_with(suffix)) return name.substr(0, name.size() - suffix.size());
    }
    return name;
}

// Several kinds with -o BASE become BASE.ir, BASE.c and so on; one kind is written to exactly what -o says.
std::string path_for(const Options& o, const Kind& kind, std::size_t count) {
    if (o.output == "-" || (count == 1 && !o.output.empty())) return o.output;
    if (!o.output.empty()) return without_object_suffix(o.output) + std::string(kind.extension);
    if (kind.text) return "-";
    return stem(o) + std::string(kind.extension);
}

void write(Compilation& c, const OutputPlace& place, const auto& data) {
    const auto written = write_output(place.path, data);
    if (written) return report_lost(c.diagnostics, place.path, *written);
    const std::string shown = place.path == "-" ? "standard output" : "`" + place.path + "`";
    c.diagnostics.report(501, {}, fmt::format("cannot write {}: {}", shown, written.error().reason),
                         remedy_of(written.error(), fmt::format("choose another place with `{} FILE`", place.option)));
}

struct Output {
    OutputPlace place;
    const Kind* kind = nullptr;  // null: the source map or the dependency rule
};

std::string dependency_target(const Options& o, const std::string& output) {
    return output.empty() || output == "-" ? stem(o) + ".bpf.o" : output;
}

std::vector<Output> outputs(const Options& o) {
    std::vector<Output> all;
    const auto names = wanted(o);
    for (const std::string& name : names) {
        const Kind& kind = kind_named(name);
        all.push_back({{"the output", "-o", path_for(o, kind, names.size())}, &kind});
    }
    const std::string first = all.empty() ? "" : all.front().place.path;
    if (!o.source_map.empty()) all.push_back({{"the source map", "--source-map", o.source_map}});
    if (o.write_deps) {
        const std::string beside = without_object_suffix(dependency_target(o, first)) + ".d";
        all.push_back({{"the dependency rule", "-MF", o.deps_file.empty() ? beside : o.deps_file}});
    }
    return all;
}

void write_one(Compilation& c, const Output& output, const std::string& first) {
    const OutputPlace& place = output.place;
    if (output.kind != nullptr && output.kind->text == nullptr)
        write(c, place, std::span<const std::uint8_t>(c.elf));
    else if (output.kind != nullptr)
        write(c, place, std::string_view(output.kind->text(c)));
    else if (place.option == "--source-map")
        write(c, place, std::string_view(SourceMap(c.loader).to_json(c.sources)));
    else
        write(c, place, std::string_view(dependency_rule(dependency_target(c.options, first), c.loader)));
}

std::size_t position(std::string_view stage) {
    const auto all = pipeline();
    return static_cast<std::size_t>(std::ranges::find(all, stage, &Stage::name) - all.begin());
}

}  // namespace

std::string_view last_stage(const Options& o) {
    if (o.verify != VerifyMode::off) return "verify";
    std::string_view last = o.check ? "validate" : "parse";
    if (o.report != ReportMode::off) last = "stack";
    for (const std::string& name : wanted(o)) {
        const std::string_view stage = kind_named(name).stage;
        if (position(stage) > position(last)) last = stage;
    }
    // A dependency rule and a source map name the imports too, which checking finds.
    const bool wants_imports = o.write_deps || !o.source_map.empty();
    return wants_imports && position(last) < position("check") ? "check" : last;
}

bool emits_to_stdout(const Options& o) {
    const auto names = wanted(o);
    return std::ranges::any_of(
        names, [&](const std::string& name) { return path_for(o, kind_named(name), names.size()) == "-"; });
}

void write_outputs(Compilation& c) {
    const std::vector<Output> all = outputs(c.options);
    std::vector<OutputPlace> places;
    for (const Output& output : all) places.push_back(output.place);
    refuse_collisions(places, c.loader, c.diagnostics);
    if (c.diagnostics.has_errors()) return;
    const std::string first = wanted(c.options).empty() ? "" : all.front().place.path;
    // What is made for the output comes before it: where one cannot be written, make and its like find no new output.
    for (const bool is_output : {false, true}) {
        for (const Output& output : all)
            if ((output.kind != nullptr) == is_output) write_one(c, output, first);
        if (c.diagnostics.has_errors()) return;
    }
}

}  // namespace chainio::chainc
