#include "tools/chainc/status.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "tools/chainc/files.h"

namespace chainio::chainc {
namespace {

int status_of(int code) {
    switch (code) {
        case 500:
        case 501:
        case 600:
        case 606: return status_system;
        // A bad value of -D, -W or --target, or outputs in each other's place; the first three codes are those of
        // semantic analysis for what only it can judge.
        case 125:
        case 126:
        case 325:
        case 504:
        case 505:
        case 508: return status_usage;
        case 605: return status_not_permitted;
        default: return status_wrong_input;
    }
}

}  // namespace

void print_diagnostics(Format format, const diag::Diagnostics& diagnostics, const diag::Sources& sources, bool colour) {
    std::string text;
    switch (format) {
        case Format::text: text = diag::render_text(diagnostics, sources, colour); break;
        case Format::json: text = diag::render_json(diagnostics, sources); break;
        case Format::sarif: text = diag::render_sarif(diagnostics, sources); break;
    }
    // When even standard error is closed, the exit status is all that is left to say it with.
    if (!text.empty()) (void)write_output("/dev/stderr", std::string_view(text));
}

int exit_status(const diag::Diagnostics& diagnostics) {
    int status = 0;
    for (const diag::Diagnostic& d : diagnostics.sorted()) {
        if (d.severity == diag::Severity::error) status = std::max(status, status_of(d.code));
    }
    return status;
}

bool wants_colour(const std::string& when) {
    if (when != "auto") return when == "always";
    const char* no_colour = std::getenv("NO_COLOR");
    const char* terminal = std::getenv("TERM");
    if (no_colour && *no_colour) return false;
    return ::isatty(2) == 1 && !(terminal && std::string_view(terminal) == "dumb");
}

}  // namespace chainio::chainc
