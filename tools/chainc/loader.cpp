#include "tools/chainc/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "compiler/diag/utf8.h"
#include "compiler/syntax/parse.h"
#include "tools/chainc/files.h"
#include "tools/chainc/spec_names.h"

namespace chainio::chainc {
namespace {

namespace fs = std::filesystem;

std::string real_path(const std::string& path) {
    std::error_code error;
    const fs::path real = fs::canonical(path, error);
    return error ? path : real.string();
}

Span place_of_byte(std::string_view text, FileId id, std::size_t at) {
    const std::string_view before = text.substr(0, at);
    const auto line = static_cast<std::uint32_t>(std::ranges::count(before, '\n') + 1);
    const std::size_t line_start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
    const auto col = static_cast<std::uint32_t>(at - line_start + 1);
    return {id, line, col, line, col + 1};
}

// Some editors begin a UTF-8 file with it; it says nothing.
constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

// Line information names the root after its app: the same for both forms, for standard input and in every folder.
std::string root_name(const ast::File& tree) {
    for (const ast::Item& item : tree.items) {
        const auto* app = std::get_if<ast::App>(&item.node);
        if (app && !app->name.text.empty()) return app->name.text + ".chain";
    }
    return "main.chain";
}

}  // namespace

FileLoader::FileLoader(diag::Sources& sources, diag::Diagnostics& diagnostics, std::vector<std::string> include_dirs,
                       std::string stdlib)
    : sources_(sources),
      diagnostics_(diagnostics),
      include_dirs_(std::move(include_dirs)),
      stdlib_(std::move(stdlib)) {}

LoadedFile* FileLoader::load_root(const std::string& path) {
    std::string found = path;
    auto text = read_source(path);
    const bool in_library = path != "-" && !stdlib_.empty() && !fs::path(path).is_absolute();
    if (!text && text.error().missing && in_library) {
        const std::string there = (fs::path(stdlib_) / path).string();
        auto library_text = read_source(there);
        if (library_text || !library_text.error().missing) {
            found = there;
            text = std::move(library_text);
        }
    }
    const std::string shown = path == "-" ? "<stdin>" : found;
    if (!text) {
        const std::string library =
            in_library ? fmt::format(" specs of the library (`std/…`) are in {};", stdlib_) : "";
        const std::string meant = in_library && text.error().missing ? meant_spec(path, stdlib_) : "";
        diagnostics_.report(500, {}, fmt::format("cannot read `{}`: {}", shown, text.error().reason),
                            meant.empty() ? fmt::format("check the path;{} `-` reads standard input", library) : meant);
        return nullptr;
    }
    FileId id = 0;
    if (!add_text(shown, std::move(*text), id)) return nullptr;
    LoadedFile* file = parse(id, found, {});
    if (path != "-") by_real_path_[real_path(found)] = file;
    return file;
}

sema::Loaded FileLoader::load_import(const std::string& path, FileId importing) {
    sema::Loaded result;
    for (const std::string& candidate : candidates(path, importing)) {
        const std::string real = real_path(candidate);
        const auto known = by_real_path_.find(real);
        if (known != by_real_path_.end()) {
            result.file = known->second->tree.get();
            result.canonical_name = known->second->canonical_name;
            return result;
        }
        auto text = read_source(candidate);
        if (!text) {
            result.tried.push_back(text.error().missing ? candidate
                                                        : fmt::format("{} ({})", candidate, text.error().reason));
            continue;
        }
        FileId id = 0;
        const bool good = add_text(candidate, std::move(*text), id);
        LoadedFile* file = good ? parse(id, candidate, unused_name(path)) : add_empty(id, candidate, unused_name(path));
        by_real_path_[real] = file;
        result.file = file->tree.get();
        result.canonical_name = file->canonical_name;
        return result;
    }
    if (path.starts_with("std/")) result.meant = meant_spec(path, stdlib_);
    return result;
}

bool FileLoader::add_text(const std::string& shown_name, std::string text, FileId& id) {
    if (text.starts_with(byte_order_mark)) text.erase(0, byte_order_mark.size());
    const std::size_t bad = diag::first_bad_byte(text);
    id = sources_.add(shown_name, std::move(text));
    if (bad == std::string::npos) return true;
    const std::string_view kept = sources_.text(id);
    const auto byte = static_cast<unsigned char>(kept[bad]);
    const std::string what =
        byte == 0 ? "byte 0x00 stands in no spec" : fmt::format("byte 0x{:02x} is not UTF-8 text", byte);
    diagnostics_.report(502, place_of_byte(kept, id, bad), what,
                        byte == 0 ? "give the source of the spec, not a compiled file" : "save the file as UTF-8");
    return false;
}

// Stands for a file whose text is unusable, which has been reported: it declares nothing.
LoadedFile* FileLoader::add_empty(FileId id, const std::string& path, std::string canonical_name) {
    LoadedFile& file = files_.emplace_back();
    file.id = id;
    file.path = path;
    file.canonical_name = std::move(canonical_name);
    file.tree = std::make_unique<ast::File>();
    file.tree->id = id;
    return &file;
}

LoadedFile* FileLoader::parse(FileId id, const std::string& path, std::string canonical_name) {
    LoadedFile& file = files_.emplace_back();
    file.id = id;
    file.path = path;
    file.tree = syntax::parse(id, sources_, diagnostics_);
    file.canonical_name = canonical_name.empty() ? root_name(*file.tree) : std::move(canonical_name);
    syntax::print_chain(*file.tree);  // numbers the lines that line information refers to
    return &file;
}

std::vector<std::string> FileLoader::candidates(const std::string& path, FileId importing) const {
    if (fs::path(path).is_absolute()) return {path};
    std::vector<std::string> result;
    const auto importer = std::ranges::find(files_, importing, &LoadedFile::id);
    const fs::path folder =
        importer == files_.end() || importer->path == "-" ? fs::path() : fs::path(importer->path).parent_path();
    result.push_back((folder / path).string());
    for (const std::string& dir : include_dirs_) result.push_back((fs::path(dir) / path).string());
    if (!stdlib_.empty()) result.push_back((fs::path(stdlib_) / path).string());
    std::ranges::replace(result, std::string("-"),
                         std::string("./-"));  // an import is a file: the name alone would be standard input
    return result;
}

std::string FileLoader::unused_name(const std::string& wanted) const {
    const auto used = [&](const std::string& name) {
        return std::ranges::find(files_, name, &LoadedFile::canonical_name) != files_.end();
    };
    std::string name = wanted;
    for (std::size_t i = 2; used(name); i++) name = fmt::format("{}#{}", wanted, i);
    return name;
}

}  // namespace chainio::chainc
