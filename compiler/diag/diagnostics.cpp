// Collecting diagnostics: severities by the options, no duplicates, a bounded number.
#include <algorithm>
#include <numeric>
#include <tuple>

#include "compiler/diag/diag.h"

namespace chainio::diag {
namespace {

auto place(const Diagnostic& d) { return std::tuple(d.span.file, d.span.line, d.span.col, d.code); }

Severity severity_of(const CatalogEntry* entry, const WarningOptions& options) {
    if (!entry) return Severity::error;
    if (entry->severity != Severity::warning) return entry->severity;
    const auto chosen = options.errors.find(std::string(entry->name));
    if (chosen != options.errors.end()) return chosen->second ? Severity::error : Severity::warning;
    return options.all_errors ? Severity::error : Severity::warning;
}

bool is_enabled(const CatalogEntry* entry, const WarningOptions& options) {
    if (!entry || entry->severity == Severity::error) return true;
    const auto chosen = options.enabled.find(std::string(entry->name));
    return chosen == options.enabled.end() || chosen->second;
}

}  // namespace

Diagnostics::Diagnostics(WarningOptions options, std::size_t limit) : options_(std::move(options)), limit_(limit) {}

void Diagnostics::report(int code, Span span, std::string message, std::string hint, std::vector<Note> notes) {
    const CatalogEntry* entry = find_entry(code);
    if (!is_enabled(entry, options_)) return;
    // Diagnostics without a place are told apart by their words.
    const bool placed = span.file != 0;
    const auto key = std::tuple(span.file, span.line, span.col, code, placed ? std::string() : message);
    const Severity severity = severity_of(entry, options_);
    std::size_t& count = severity == Severity::error ? errors_ : others_;
    // Past a bound, what is new is counted and no longer remembered. It is one bound for errors and one for the rest,
    // so that warnings hide no error.
    const bool is_new = count < 64 * limit_ ? seen_.insert(key).second : !seen_.contains(key);
    if (!is_new) return;
    count++;
    if (count > limit_) return;
    all_.push_back({code, severity, span, std::move(message), std::move(hint), std::move(notes)});
}

bool Diagnostics::has_errors() const { return errors_ != 0; }
std::size_t Diagnostics::error_count() const { return errors_; }
std::size_t Diagnostics::other_count() const { return others_; }
bool Diagnostics::reported_at(Span span) const {
    const auto at = seen_.lower_bound({span.file, span.line, span.col, 0, {}});
    return at != seen_.end() && std::get<0>(*at) == span.file && std::get<1>(*at) == span.line &&
           std::get<2>(*at) == span.col;
}
std::size_t Diagnostics::dropped() const { return errors_ + others_ - all_.size(); }

std::vector<Diagnostic> Diagnostics::sorted() const {
    std::vector<std::size_t> order(all_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto key = [&](std::size_t i) { return std::tuple_cat(place(all_[i]), std::tuple(i)); };
    std::ranges::sort(order, {}, key);
    std::vector<Diagnostic> result;
    // Behind an error a note is only in the way of what matters.
    for (const std::size_t i : order)
        if (errors_ == 0 || all_[i].severity != Severity::note) result.push_back(all_[i]);
    return result;
}

}  // namespace chainio::diag
