// Diagnostics: collected during a compilation, rendered as text with carets, JSON or SARIF.
#pragma once
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "compiler/diag/span.h"

namespace chainio::diag {

enum class Severity { note, warning, error };

// One row of the catalogue (catalog.def): a stable code, its short title, and the text that --explain prints.
struct CatalogEntry {
    int code;                // 123 is printed as CH0123
    Severity severity;       // the severity without -W options
    std::string_view name;   // kebab-case, the word of -W and -Werror=
    std::string_view title;  // one line
    std::string_view explain;
};
const CatalogEntry* find_entry(int code);
const CatalogEntry* find_entry(std::string_view code_or_name);  // "CH0123", "0123", "123" or the kebab-case name
const std::vector<CatalogEntry>& catalog();

// The texts that spans refer to. A text stays valid until the object dies.
class Sources {
  public:
    FileId add(std::string name, std::string text);
    std::string_view name(FileId id) const;
    std::string_view text(FileId id) const;
    std::string_view line(FileId id, std::uint32_t line) const;  // without its line end; empty past the end

  private:
    struct Source {
        std::string name;
        std::string text;
        std::vector<std::size_t> line_starts;
    };
    std::deque<Source> sources_;  // a deque: adding one does not move the others' texts
};

struct Note {
    Span span;  // file 0: no place
    std::string message;
};

struct Diagnostic {
    int code = 0;
    Severity severity = Severity::error;
    Span span;
    std::string message;
    std::string hint;  // what the user can do; every error has one
    std::vector<Note> notes;
};

struct WarningOptions {
    bool all_errors = false;              // -Werror
    std::map<std::string, bool> enabled;  // -Wname / -Wno-name
    std::map<std::string, bool> errors;   // -Werror=name
};

// Collects diagnostics; the same code at the same place is kept once. At most `limit` errors are kept, and as many
// warnings and notes; the rest is counted.
class Diagnostics {
  public:
    explicit Diagnostics(WarningOptions options = {}, std::size_t limit = 200);
    // The severity comes from the catalogue and the warning options.
    void report(int code, Span span, std::string message, std::string hint, std::vector<Note> notes = {});
    bool has_errors() const;
    std::size_t error_count() const;
    std::size_t other_count() const;         // warnings and notes
    bool reported_at(Span span) const;       // anything that begins where the span does
    std::size_t dropped() const;             // counted, but not kept
    std::vector<Diagnostic> sorted() const;  // by file, line, column, code

  private:
    WarningOptions options_;
    std::size_t limit_;
    std::size_t errors_ = 0, others_ = 0;
    std::set<std::tuple<FileId, std::uint32_t, std::uint32_t, int, std::string>> seen_;
    std::vector<Diagnostic> all_;
};

std::string code_text(int code);  // "CH0123"
std::string_view severity_text(Severity);

std::string render_text(const Diagnostics&, const Sources&, bool colour);
std::string render_json(const Diagnostics&, const Sources&);
std::string render_sarif(const Diagnostics&, const Sources&);

// The candidate nearest to `word` by edit distance when it is near enough for a "did you mean"; nullopt otherwise.
std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace chainio::diag
