// Diagnostics as text: place, severity, code and message, the quoted line with carets, notes, hint.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/diag/snippet.h"
#include "compiler/diag/utf8.h"

namespace chainio::diag {
namespace {

// Names of files and what programs said may hold any byte; lines and tabs stay what they are.
std::string shown(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find_first_of("\n\t"), text.size());
        out += escaped(text.substr(0, end));
        if (end < text.size()) out += text[end];
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return out;
}

std::string place_text(const Span& span, const Sources& sources) {
    if (span.file == 0) return "chainc: ";
    if (span.line == 0) return fmt::format("{}: ", escaped(sources.name(span.file)));
    return fmt::format("{}:{}:{}: ", escaped(sources.name(span.file)), span.line, span.col);
}

std::string_view colour_of(Severity severity, const Paint& p) {
    if (severity == Severity::error) return p.error;
    return severity == Severity::warning ? p.warning : p.note;
}

void render_one(std::string& out, const Diagnostic& d, const Sources& sources, const Paint& p) {
    out += fmt::format("{}{}{}{}{}[{}]:{} {}\n", p.place, place_text(d.span, sources), p.off, colour_of(d.severity, p),
                       severity_text(d.severity), code_text(d.code), p.off, shown(d.message));
    out += snippet(d.span, sources, p);
    for (const Note& note : d.notes) {
        const std::string place = note.span.file == 0 ? std::string() : place_text(note.span, sources);
        out += fmt::format("  {}note:{} {}{}\n", p.note, p.off, place, shown(note.message));
        out += snippet(note.span, sources, p);
    }
    if (!d.hint.empty()) out += fmt::format("  {}hint:{} {}\n", p.note, p.off, shown(d.hint));
}

std::string count_text(std::size_t count, std::string_view noun) {
    return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace

std::string code_text(int code) { return fmt::format("CH{:04}", code); }

std::string_view severity_text(Severity severity) {
    if (severity == Severity::error) return "error";
    return severity == Severity::warning ? "warning" : "note";
}

std::string render_text(const Diagnostics& diagnostics, const Sources& sources, bool colour) {
    const Paint& p = paint(colour);
    std::string out;
    std::size_t warnings = 0;
    for (const Diagnostic& d : diagnostics.sorted()) {
        render_one(out, d, sources, p);
        if (d.severity == Severity::warning) warnings++;
    }
    const std::size_t errors = diagnostics.error_count();
    if (errors + warnings > 1) {
        if (errors != 0) out += count_text(errors, "error");
        if (errors != 0 && warnings != 0) out += ", ";
        if (warnings != 0) out += count_text(warnings, "warning");
        if (diagnostics.dropped() != 0) out += fmt::format("; {} more not shown", diagnostics.dropped());
        out += '\n';
    }
    return out;
}

}  // namespace chainio::diag
