#include "tools/chainc/format.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/syntax/parse.h"
#include "tools/chainc/collisions.h"
#include "tools/chainc/files.h"
#include "tools/chainc/loader.h"
#include "tools/chainc/status.h"
#include "tools/chainc/stdlib.h"

namespace chainio::chainc {
namespace {

// The place of the first line that differs.
Span first_difference(const diag::Sources& sources, FileId id, std::string_view formatted) {
    const std::string_view text = sources.text(id);
    const auto [a, b] = std::ranges::mismatch(text, formatted);
    const auto line = static_cast<std::uint32_t>(std::count(text.begin(), a, '\n') + 1);
    const auto width = static_cast<std::uint32_t>(sources.line(id, line).size());
    return {id, line, 1, line, width + 1};
}

void format_one(const Options& options, const std::string& input, diag::Sources& sources,
                diag::Diagnostics& diagnostics) {
    const std::size_t errors_before = diagnostics.error_count();
    // The library is read and never rewritten.
    const bool in_place = options.fmt == FmtMode::in_place;
    FileLoader loader(sources, diagnostics, {}, in_place ? std::string() : find_stdlib(options.stdlib));
    const LoadedFile* file = loader.load_root(input);
    if (!file || diagnostics.error_count() != errors_before) return;  // what could not be read would be lost
    const std::string formatted =
        syntax::is_yaml(file->id, sources) ? syntax::print_yaml(*file->tree) : syntax::format_chain(*file->tree);
    const bool same = formatted == sources.text(file->id);
    if (options.fmt == FmtMode::check) {
        if (!same) {
            diagnostics.report(507, first_difference(sources, file->id, formatted),
                               "not in canonical form from this line on",
                               fmt::format("`chainc --fmt --in-place {}` rewrites the file", input));
        }
        return;
    }
    if (in_place && same) return;  // keeps the file's time, so that nothing is rebuilt for it
    if (!in_place && !options.output.empty()) {
        refuse_collisions({{"the output", "-o", options.output}}, loader, diagnostics,
                          ", or write it back with `--in-place`");
        if (diagnostics.error_count() != errors_before) return;
    }
    const std::string target = in_place ? input : options.output.empty() ? "-" : options.output;
    const auto written = write_output(target, formatted);
    if (written) return report_lost(diagnostics, target, *written);
    const std::string shown = target == "-" ? "standard output" : "`" + target + "`";
    diagnostics.report(
        501, {}, fmt::format("cannot write {}: {}", shown, written.error().reason),
        remedy_of(written.error(),
                  in_place ? "check the permissions of the file and its folder" : "choose another place with `-o FILE`",
                  !in_place));
}

}  // namespace

int run_format(const Options& options, bool colour) {
    diag::Sources sources;
    diag::Diagnostics diagnostics;
    for (const std::string& input : options.inputs) format_one(options, input, sources, diagnostics);
    print_diagnostics(options.format, diagnostics, sources, colour);
    return exit_status(diagnostics);
}

}  // namespace chainio::chainc
