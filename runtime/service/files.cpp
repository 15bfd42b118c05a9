#include "runtime/service/files.h"

#include <algorithm>

#include "compiler/ir/visit.h"

namespace chainio::service {
namespace {

std::string not_found(const ir::FileClass& of, const std::string& name, std::size_t count) {
    const std::string &files_class = of.name, &pattern = of.pattern;
    std::string text = "files '" + files_class + "' has ";
    if (count == 0) {
        // A name with a `/` is found by the path as it was given, and by no other way to the same file.
        const bool whole = name.contains('/');
        const bool opened_unasked =
            name == pattern && name.starts_with('/') && name.find_first_of("*?[\\") == std::string::npos;
        text += name.empty() ? "no file; open one" : "no file '" + name + "'; open it";
        text += ": --file " + files_class + "=" + (whole ? name : "PATH");
        return opened_unasked ? text + ", or leave --file out" : text;
    }
    text += std::to_string(count) + " files";
    return name.empty() ? text + ", and the service names none of them; open one only"
                        : text + " '" + name + "'; open one of them only";
}

std::string missing_in(const ir::Module& module, const ir::Body& body, const Files& files) {
    std::string missing;
    for (const ir::Stmt& stmt : body) {
        if (const auto* call = std::get_if<ir::CallChain>(&stmt.node)) {
            for (const ir::CallFile& file : call->files) {
                const ir::Slice& at = file.name;
                if (at.space != ir::Space::literal || !at.offset.is_imm || !at.length.is_imm) continue;
                const std::string name(
                    module.literals.begin() + static_cast<std::ptrdiff_t>(at.offset.value),
                    module.literals.begin() + static_cast<std::ptrdiff_t>(at.offset.value + at.length.value));
                if (files.find(file.file_class, name)) continue;
                return not_found(module.files[file.file_class], name, files.count(file.file_class, name));
            }
        }
        ir::for_each_body(stmt, [&](const ir::Body& nested) {
            if (missing.empty()) missing = missing_in(module, nested, files);
        });
        if (!missing.empty()) break;
    }
    return missing;
}

}  // namespace

bool Files::is_named(const NamedFile& file, std::uint32_t file_class, std::string_view name) {
    const std::string_view path = file.path;
    return file.file_class == file_class && (name.empty() || path == name || path.substr(path.rfind('/') + 1) == name);
}

std::size_t Files::count(std::uint32_t file_class, std::string_view name) const {
    return static_cast<std::size_t>(
        std::ranges::count_if(files_, [&](const NamedFile& file) { return is_named(file, file_class, name); }));
}

std::optional<engine::FileHandle> Files::find(std::uint32_t file_class, std::string_view name) const {
    std::optional<engine::FileHandle> found;
    for (const NamedFile& file : files_) {
        if (!is_named(file, file_class, name)) continue;
        if (found) return std::nullopt;
        found = file.handle;
    }
    return found;
}

std::string missing_file(const ir::Module& module, std::uint32_t program, const Files& files) {
    return missing_in(module, module.programs[program].body, files);
}

std::string missing_file(const ir::Module& module, const ir::Service& service, bool tcp, const Files& files) {
    for (const std::int32_t program :
         {tcp ? service.on_request_tcp : service.on_request_udp, service.on_malformed, service.on_failure}) {
        if (program < 0) continue;
        std::string missing = missing_file(module, static_cast<std::uint32_t>(program), files);
        if (!missing.empty()) return missing;
    }
    return {};
}

}  // namespace chainio::service
