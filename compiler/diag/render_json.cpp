// Diagnostics for programs: our own JSON, and SARIF 2.1.0.
#include <nlohmann/json.hpp>
#include <set>

#include "compiler/diag/diag.h"
#include "compiler/diag/utf8.h"

namespace chainio::diag {
namespace {

using Json = nlohmann::ordered_json;

// A source may hold bytes that are not UTF-8, and messages quote it: those bytes become U+FFFD instead of an exception.
std::string print(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

void add_place(Json& object, const Span& span, const Sources& sources) {
    if (span.file == 0) return;
    object["file"] = sources.name(span.file);
    if (span.line == 0) return;
    object["line"] = span.line;
    object["column"] = span.col;
    object["endLine"] = span.end_line;
    object["endColumn"] = span.end_col;
}

bool unreserved(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
           c == '_' || c == '~' || c == '/';
}

std::string uri_of(std::string_view name) {
    constexpr std::string_view hex = "0123456789ABCDEF";
    std::string uri = name.starts_with('/') ? "file://" : "";
    for (const char c : name) {
        if (unreserved(c)) {
            uri += c;
            continue;
        }
        const auto byte = static_cast<unsigned char>(c);
        uri += {'%', hex[byte >> 4], hex[byte & 15]};
    }
    return uri;
}

Json location(const Span& span, const Sources& sources) {
    Json physical;
    physical["artifactLocation"]["uri"] = uri_of(sources.name(span.file));
    if (span.line != 0) {
        // Our columns are bytes; SARIF's, by columnKind, code points.
        const auto column = [&](std::uint32_t line, std::uint32_t col) {
            return code_points(sources.line(span.file, line), col == 0 ? 0 : col - 1) + 1;
        };
        Json& region = physical["region"];
        region["startLine"] = span.line;
        region["startColumn"] = column(span.line, span.col);
        if (span.end_line >= span.line && span.end_col != 0) {
            region["endLine"] = span.end_line;
            region["endColumn"] = column(span.end_line, span.end_col);
        }
    }
    return {{"physicalLocation", physical}};
}

Json sarif_rule(const CatalogEntry& entry) {
    Json rule;
    rule["id"] = code_text(entry.code);
    rule["name"] = entry.name;
    rule["shortDescription"]["text"] = entry.title;
    rule["fullDescription"]["text"] = entry.explain;
    rule["defaultConfiguration"]["level"] = severity_text(entry.severity);
    return rule;
}

Json sarif_result(const Diagnostic& d, const Sources& sources) {
    Json result;
    result["ruleId"] = code_text(d.code);
    result["level"] = severity_text(d.severity);
    result["message"]["text"] = d.hint.empty() ? d.message : d.message + "\nhint: " + d.hint;
    if (d.span.file != 0) result["locations"] = Json::array({location(d.span, sources)});
    for (std::size_t i = 0; i < d.notes.size(); i++) {
        Json related = d.notes[i].span.file == 0 ? Json::object() : location(d.notes[i].span, sources);
        related["id"] = i + 1;
        related["message"]["text"] = d.notes[i].message;
        result["relatedLocations"].push_back(std::move(related));
    }
    return result;
}

}  // namespace

std::string render_json(const Diagnostics& diagnostics, const Sources& sources) {
    Json root;
    root["errors"] = diagnostics.error_count();
    root["others"] = diagnostics.other_count();
    root["notShown"] = diagnostics.dropped();
    root["diagnostics"] = Json::array();
    for (const Diagnostic& d : diagnostics.sorted()) {
        Json one;
        one["code"] = code_text(d.code);
        if (const CatalogEntry* entry = find_entry(d.code)) one["name"] = entry->name;
        one["severity"] = severity_text(d.severity);
        one["message"] = d.message;
        if (!d.hint.empty()) one["hint"] = d.hint;
        add_place(one, d.span, sources);
        for (const Note& note : d.notes) {
            Json entry{{"message", note.message}};
            add_place(entry, note.span, sources);
            one["notes"].push_back(std::move(entry));
        }
        root["diagnostics"].push_back(std::move(one));
    }
    return print(root);
}

std::string render_sarif(const Diagnostics& diagnostics, const Sources& sources) {
    Json rules = Json::array(), results = Json::array();
    std::set<int> named;
    for (const Diagnostic& d : diagnostics.sorted()) {
        const CatalogEntry* entry = find_entry(d.code);
        if (entry && named.insert(d.code).second) rules.push_back(sarif_rule(*entry));
        results.push_back(sarif_result(d, sources));
    }
    Json driver{{"name", "chainc"}, {"rules", std::move(rules)}};
    Json run;
    run["tool"] = Json{{"driver", std::move(driver)}};
    run["columnKind"] = "unicodeCodePoints";
    run["results"] = std::move(results);
    Json root;
    root["$schema"] = "https://json.schemastore.org/sarif-2.1.0.json";
    root["version"] = "2.1.0";
    root["runs"] = Json::array({std::move(run)});
    return print(root);
}

}  // namespace chainio::diag
