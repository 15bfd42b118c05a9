#include "tools/rights/rights.h"

#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

namespace chainio::tool {
namespace {

using Bytes = std::vector<char>;
constexpr const char* kAccess = "system.posix_acl_access";
constexpr std::size_t kLongest = 65536;  // attributes, and lists of their names

std::string system_text(const std::string& what) { return what + ": " + std::strerror(errno); }

std::optional<Bytes> attribute(const std::string& path, const char* name) {
    Bytes value(kLongest);
    const ssize_t length = getxattr(path.c_str(), name, value.data(), value.size());
    if (length < 0) return std::nullopt;
    value.resize(static_cast<std::size_t>(length));
    return value;
}

bool has(int fd, const char* name, const Bytes& value) {
    Bytes found(kLongest);
    const ssize_t length = fgetxattr(fd, name, found.data(), found.size());
    return length >= 0 && std::ranges::equal(value, std::string_view(found.data(), static_cast<std::size_t>(length)));
}

// What a list of whom the file is for says of its group, of the others, and of all that it names: permissions.
struct Entries {
    std::uint16_t group = 0, others = 0, mask = 7;
};

Entries entries_of(const Bytes& list) {
    Entries found;
    posix_acl_xattr_entry entry{};
    for (std::size_t at = sizeof(posix_acl_xattr_header); at + sizeof entry <= list.size(); at += sizeof entry) {
        std::memcpy(&entry, list.data() + at, sizeof entry);
        if (entry.e_tag == ACL_GROUP_OBJ) found.group = entry.e_perm;
        if (entry.e_tag == ACL_OTHER) found.others = entry.e_perm;
        if (entry.e_tag == ACL_MASK) found.mask = entry.e_perm;
    }
    return found;
}

void set_group(Bytes& list, std::uint16_t permissions) {
    posix_acl_xattr_entry entry{};
    for (std::size_t at = sizeof(posix_acl_xattr_header); at + sizeof entry <= list.size(); at += sizeof entry) {
        std::memcpy(&entry, list.data() + at, sizeof entry);
        if (entry.e_tag != ACL_GROUP_OBJ) continue;
        entry.e_perm = permissions;
        std::memcpy(list.data() + at, &entry, sizeof entry);
    }
}

// Owner, mode and list of `path`; another group gets no more than everybody.
bool take_over_access(int fd, const std::string& path, const struct stat& before, std::vector<std::string>& lost) {
    const bool same_owner = fchown(fd, before.st_uid, before.st_gid) == 0;
    const bool same_group = same_owner || fchown(fd, static_cast<uid_t>(-1), before.st_gid) == 0;
    // Who runs it as its owner or group does so for the one that it had.
    mode_t mode = before.st_mode & (same_owner ? 07777 : 0777);
    auto list = attribute(path, kAccess);
    if (list) {
        // The mode's bits of the group are then what the list gives at most.
        Entries found = entries_of(*list);
        if (!same_group) found.group &= found.others;
        set_group(*list, found.group);
        if (fsetxattr(fd, kAccess, list->data(), list->size(), 0) == 0) return true;
        lost.push_back(system_text("the access control list, so that it is for nobody by name"));
        mode = (mode & ~mode_t{070}) | static_cast<mode_t>((found.group & found.mask) << 3);
    } else if (!same_group) {
        mode &= ~mode_t{070} | ((mode & 07) << 3);
    }
    // One that files of the folder get by themselves is not what the file before had.
    if (fremovexattr(fd, kAccess) != 0 && errno != ENODATA && errno != EOPNOTSUPP) return false;
    return fchmod(fd, mode) == 0;
}

void take_over_attributes(int fd, const std::string& path, bool (*wanted)(std::string_view),
                          std::vector<std::string>& lost) {
    Bytes names(kLongest);
    const ssize_t length = listxattr(path.c_str(), names.data(), names.size());
    for (ssize_t at = 0; at < length; at += static_cast<ssize_t>(std::strlen(names.data() + at)) + 1) {
        const char* name = names.data() + at;
        if (!wanted(name)) continue;
        const auto value = attribute(path, name);
        if (value && (has(fd, name, *value) || fsetxattr(fd, name, value->data(), value->size(), 0) == 0)) continue;
        lost.push_back(system_text(std::string("the attribute ") + name));
    }
}

bool is_of_user(std::string_view name) { return name.starts_with("user."); }

// Others of `security.` are of the bytes that were there, such as those that signatures are kept in.
bool is_label(std::string_view name) { return name == "security.selinux" || name == "security.SMACK64"; }

}  // namespace

std::expected<std::vector<std::string>, std::string> take_over_rights(int fd, const std::string& path) {
    std::vector<std::string> lost;
    struct stat before{};
    if (stat(path.c_str(), &before) != 0) {
        const mode_t mask = umask(0);
        umask(mask);
        if (fchmod(fd, 0666 & ~mask) != 0) return std::unexpected(system_text("cannot be written"));
        return lost;
    }
    // While the file may still be written to, and the label last: it may forbid the rest.
    take_over_attributes(fd, path, is_of_user, lost);
    if (!take_over_access(fd, path, before, lost))
        return std::unexpected(system_text("cannot be given the permissions of the file that it replaces"));
    take_over_attributes(fd, path, is_label, lost);
    return lost;
}

}  // namespace chainio::tool
