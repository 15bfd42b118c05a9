#include "tools/chainc/collisions.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <filesystem>
#include <optional>
#include <tuple>

#include "tools/chainc/files.h"

namespace chainio::chainc {
namespace {

// Of a file that is there its device and inode, of one that is not yet there its folder's name and its own.
using Identity = std::tuple<dev_t, ino_t, std::string>;

// Nothing for what is written to as it stands (standard output, a device, a pipe): that replaces no file.
std::optional<Identity> identity(const std::string& path) {
    if (is_descriptor(path)) return std::nullopt;
    struct stat status{};
    if (::stat(path.c_str(), &status) == 0) {
        if (!S_ISREG(status.st_mode)) return std::nullopt;
        return Identity{status.st_dev, status.st_ino, {}};
    }
    std::error_code error;
    const std::filesystem::path absolute = std::filesystem::absolute(path, error);
    const std::filesystem::path folder = std::filesystem::weakly_canonical(absolute.parent_path(), error);
    return Identity{0, 0, (folder / absolute.filename()).string()};
}

}  // namespace

void refuse_collisions(const std::vector<OutputPlace>& outputs, const FileLoader& loader,
                       diag::Diagnostics& diagnostics, std::string_view or_else) {
    for (std::size_t i = 0; i < outputs.size(); i++) {
        const auto mine = identity(outputs[i].path);
        if (!mine) continue;
        const std::string hint = fmt::format("choose another place with `{} FILE`{}", outputs[i].option, or_else);
        for (const LoadedFile& file : loader.files()) {
            if (mine != identity(file.path)) continue;
            diagnostics.report(
                508, {},
                fmt::format("{} `{}` would replace `{}`, which was read", outputs[i].what, outputs[i].path, file.path),
                hint);
        }
        for (std::size_t k = 0; k < i; k++) {
            if (mine != identity(outputs[k].path)) continue;
            diagnostics.report(508, {},
                               fmt::format("{} `{}` would replace {} `{}`", outputs[i].what, outputs[i].path,
                                           outputs[k].what, outputs[k].path),
                               hint);
        }
    }
}

}  // namespace chainio::chainc
