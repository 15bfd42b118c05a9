// chainc: the ChainIO compiler.
#include <fmt/format.h>

#include <csignal>
#include <exception>
#include <new>

#include "tools/chainc/defines.h"
#include "tools/chainc/explain.h"
#include "tools/chainc/files.h"
#include "tools/chainc/format.h"
#include "tools/chainc/outputs.h"
#include "tools/chainc/pipeline.h"
#include "tools/chainc/report.h"
#include "tools/chainc/status.h"
#include "tools/chainc/verify.h"

namespace {

using namespace chainio;
using namespace chainio::chainc;

// Text for standard output that is the point of the run; when it cannot be written, the run has failed.
int print(std::string_view text) {
    const auto written = write_output("-", text);
    if (written) return 0;
    (void)write_output("/dev/stderr", std::string_view(fmt::format("chainc: cannot write standard output: {}\n",
                                                                   written.error().reason)));
    return status_system;
}

int run_explain(const std::string& what) {
    const auto text = explain(what);
    if (text) return print(*text);
    (void)write_output("/dev/stderr", std::string_view(text.error()));
    return status_usage;
}

int print_reports(const Compilation& c) {
    std::string text;
    if (c.options.report == ReportMode::json) text += report_json(c);
    if (c.options.report == ReportMode::table) text += report_table(c);
    if (c.options.verify != VerifyMode::off && c.options.report != ReportMode::json)
        text += (text.empty() ? "" : "\n") + verified_table(c);
    if (text.empty()) return 0;
    if (!emits_to_stdout(c.options)) return print(text);
    (void)write_output("/dev/stderr", std::string_view(text));
    return 0;
}

void print_times(const std::vector<StageTime>& times) {
    std::string text;
    for (const StageTime& stage : times)
        text += fmt::format("{:<8} {:>9.3f} ms\n", stage.name,
                            std::chrono::duration<double, std::milli>(stage.time).count());
    (void)write_output("/dev/stderr", std::string_view(text));
}

int compile(const Options& options, bool colour) {
    diag::Diagnostics problems;
    auto warnings = warning_options(options, problems);
    auto defines = define_options(options, problems);
    if (problems.has_errors()) {
        print_diagnostics(options.format, problems, {}, colour);
        return exit_status(problems);
    }
    Compilation c(options, std::move(warnings), std::move(defines));
    const std::vector<StageTime> times = run_until(last_stage(options), c);
    if (!c.diagnostics.has_errors()) write_outputs(c);
    print_diagnostics(options.format, c.diagnostics, c.sources, colour);
    if (options.time_report) print_times(times);
    const int status = exit_status(c.diagnostics);
    return status != 0 ? status : print_reports(c);
}

int run(int argc, char** argv) {
    reserve_standard_descriptors();
    const auto options = parse_options(argc, argv);
    if (!options) {
        (void)write_output("/dev/stderr", std::string_view(options.error().to_stderr));
        const int printed = options.error().to_stdout.empty() ? 0 : print(options.error().to_stdout);
        return printed != 0 ? printed : options.error().exit_code;
    }
    if (!options->explain.empty()) return run_explain(options->explain);
    const bool colour = wants_colour(options->colour);
    return options->fmt == FmtMode::off ? compile(*options, colour) : run_format(*options, colour);
}

int fail(const char* what) noexcept {
    std::fputs("chainc: ", stderr);
    std::fputs(what, stderr);
    std::fputs("\n", stderr);
    return status_system;
}

}  // namespace

int main(int argc, char** argv) {
    std::signal(SIGXFSZ, SIG_IGN);  // what is longer than a file may be is said, and no half of it stays
    try {
        return run(argc, argv);
    } catch (const std::bad_alloc&) {
        return fail("out of memory");
    } catch (const std::exception& error) {
        return fail(error.what());
    } catch (...) {
        return fail("an unknown failure");
    }
}
