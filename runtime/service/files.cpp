#include "runtime/service/files.h"

#include "compiler/ir/visit.h"

namespace chainio::service {
namespace {

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
                const std::string& files_class = module.files[file.file_class].name;
                return name.empty() ? "files '" + files_class + "' has no file, or several; open one: --file " +
                                          files_class + "=PATH"
                                    : "files '" + files_class + "' has no file '" + name + "'; open it: --file " +
                                          files_class + "=PATH";
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

std::optional<engine::FileHandle> Files::find(std::uint32_t file_class, std::string_view name) const {
    std::optional<engine::FileHandle> found;
    for (const NamedFile& file : files_) {
        if (file.file_class != file_class) continue;
        const std::string_view path = file.path;
        if (!name.empty() && path != name && path.substr(path.rfind('/') + 1) != name) continue;
        if (found) return std::nullopt;
        found = file.handle;
    }
    return found;
}

std::string missing_file(const ir::Module& module, std::uint32_t program, const Files& files) {
    return missing_in(module, module.programs[program].body, files);
}

}  // namespace chainio::service
