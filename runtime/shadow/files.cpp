#include "runtime/shadow/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "runtime/engine/files.h"
#include "runtime/shadow/clock.h"
#include "runtime/shadow/resident.h"
#include "runtime/shim/glob.h"
#include "runtime/shim/served.h"

namespace chainio::shadow {
namespace {

constexpr std::uint64_t kPathGoodFor = 1'000'000'000;  // ns until a path is looked at again
constexpr std::uint32_t kMostSearched = 4096;          // descriptors of a process

int hex_of(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

bool has_parent_step(std::string_view path) {
    for (std::size_t at = 0; at <= path.size();) {
        const std::size_t end = std::min(path.find('/', at), path.size());
        if (path.substr(at, end - at) == "..") return true;
        at = end + 1;
    }
    return false;
}

bool is_deleted(int fd) {
    struct stat info{};
    return fstat(fd, &info) == 0 && info.st_nlink == 0;
}

}  // namespace

std::uint64_t file_key(std::uint64_t device, std::uint64_t inode) {
    std::uint64_t hash = (inode ^ device * 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    hash ^= hash >> 29;
    return hash * 0x94d049bb133111ebu;
}

std::optional<std::string> decode_path(std::string_view encoded) {
    std::string path;
    for (std::size_t i = 0; i < encoded.size(); i++) {
        char c = encoded[i];
        if (c == '%') {
            if (encoded.size() - i < 3) return std::nullopt;
            const int high = hex_of(encoded[i + 1]), low = hex_of(encoded[i + 2]);
            if (high < 0 || low < 0) return std::nullopt;
            c = static_cast<char>(high * 16 + low);
            i += 2;
        }
        if (c == 0) return std::nullopt;
        path += c;
    }
    path.erase(0, std::min(path.find_first_not_of('/'), path.size()));
    if (has_parent_step(path)) return std::nullopt;
    return path;
}

std::string with_ending(const std::string& path, std::string_view ending) {
    const std::size_t name = path.rfind('/') + 1;  // 0 without one
    const std::size_t dot = path.rfind('.');
    // A name that only begins with a dot has no ending.
    const bool has_ending = dot != std::string::npos && dot > name;
    return path.substr(0, has_ending ? dot : path.size()) + std::string(ending);
}

std::uint64_t programs_read_ahead(const ir::Module& module, const ShadowFile& file) {
    return file.direct || module.files[file.file_class].no_read_ahead ? 0 : file.read_ahead;
}

Files::Files(const spec::Loaded& spec, std::uint32_t most_known, std::uint32_t most_open)
    : spec_(spec),
      most_known_(most_known),
      most_open_(most_open),
      own_fds_(::open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC)),
      user_(geteuid()) {}

Files::~Files() {
    while (!opened_.empty()) close_file(opened_.begin());
    if (own_fds_ >= 0) close(own_fds_);
}

void Files::touch(List::iterator at) {
    at->used = turn_;
    List& list = at->fd >= 0 ? opened_ : closed_;
    list.splice(list.begin(), list, at);
}

void Files::has_opened(ShadowFile& file, int fd, std::uint64_t size) {
    // On this descriptor the kernel reads what is asked for and no more.
    posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
    file.refused.reset();
    file.fd = fd;
    file.used = turn_;
    file.size = size;
    const Devices::Device& device = devices_.of(file.device, fd, size);
    file.read_ahead = device.read_ahead;
    file.begins_reads = device.begins_reads;
    file.counts_pages = device.counts_pages;
    // Who may begin a read learns by that what is there.
    file.untold = !device.begins_reads && tells_what_is_resident(fd) == false;
    untold_ += file.untold;
    opened_.splice(opened_.begin(), closed_, by_inode_.find({file.device, file.inode})->second);
}

// Who posts may claim any device: none is asked about before a file of it has been opened.
bool Files::glances_at(ShadowFile& file) const {
    const Devices::Device* device = devices_.find(file.device);
    if (device != nullptr) file.read_ahead = device->read_ahead;
    return device != nullptr;
}

void Files::close_file(List::iterator at) {
    if (closing_ != nullptr) closing_(closing_context_, *at);
    close(at->fd);
    at->fd = -1;
    at->headers.clear();
    closed_.splice(closed_.begin(), opened_, at);
}

void Files::forget_oldest() {
    for (List* list : {&closed_, &opened_}) {
        for (auto at = list->end(); at != list->begin();) {
            --at;
            if (at->pins != 0) continue;
            if (at->fd >= 0) close_file(at);
            forget(at);
            return;
        }
    }
}

// Another file may have got its path meanwhile.
void Files::forget_path(const ShadowFile& file) {
    const auto path = by_path_.find(file.path);
    if (path != by_path_.end() && path->second == Key{file.device, file.inode}) by_path_.erase(path);
}

// A closed one.
void Files::forget(List::iterator at) {
    by_inode_.erase({at->device, at->inode});
    forget_path(*at);
    closed_.erase(at);
}

void Files::close_or_forget(List::iterator at) {
    close_file(at);
    if (at->named) forget(at);
}

// Of those that nothing goes on in.
bool Files::close_oldest() {
    for (auto at = opened_.end(); at != opened_.begin();) {
        if ((--at)->pins != 0) continue;
        close_or_forget(at);
        return true;
    }
    return false;
}

void Files::close_some() {
    while (opened_.size() >= most_open_ && close_oldest()) {}
}

// An open file keeps the space of one that was deleted, and its file system from being unmounted; programs that have
// ended have not closed theirs, and what a fork shares is closed once in each process. What is served from memory is
// kept for a program that has it open, as opening it anew would begin with nothing.
void Files::let_go() {
    constexpr std::uint32_t kGrace = 3, kLong = 20;  // turns
    turn_++;
    for (auto behind = opened_.end(); behind != opened_.begin();) {
        const auto at = std::prev(behind);
        const std::uint32_t idle = turn_ - at->used;
        const bool deleted = is_deleted(at->fd);
        const std::uint32_t grace = at->openings == 0 && !at->served ? kGrace : kLong;
        const bool unused = idle >= grace && (at->openings == 0 || !at->served);
        if (at->pins == 0 && (deleted || unused)) {
            close_or_forget(at);
        } else {
            behind = at;
        }
    }
}

bool Files::let_go_of_deleted() {
    return let_go_of([](const ShadowFile& file) { return is_deleted(file.fd); });
}

bool Files::let_go_of_all() {
    return let_go_of([](const ShadowFile&) { return true; });
}

template <typename Which>
bool Files::let_go_of(Which which) {
    bool all = true;
    for (auto next = opened_.begin(); next != opened_.end();) {
        const auto at = next++;
        if (!which(*at)) continue;
        if (at->pins == 0) {
            close_or_forget(at);
        } else {
            all = false;
        }
    }
    return all;
}

ShadowFile& Files::add(std::uint64_t device, std::uint64_t inode, std::string_view path) {
    const auto found = by_inode_.find({device, inode});
    if (found != by_inode_.end()) {
        touch(found->second);
        ShadowFile& file = *found->second;
        if (file.path != path) {
            forget_path(file);
            file.path = path;
        }
        by_path_[file.path] = {device, inode};
        return file;
    }
    if (known() >= most_known_) forget_oldest();
    ShadowFile& file = closed_.emplace_front();
    file.device = device;
    file.inode = inode;
    file.key = file_key(device, inode);
    file.path = path;
    by_inode_[{device, inode}] = closed_.begin();
    by_path_[file.path] = {device, inode};
    return file;
}

bool Files::matches(std::uint32_t file_class, const char* path) const {
    return shim::glob_matches(spec_.module().files[file_class].pattern.c_str(), path);
}

// The class of an open file says whether it is served: a path that does not lead to it is not to say so.
bool Files::may_be_called(const ShadowFile& file, std::string_view path, std::uint32_t file_class) const {
    if (file.fd < 0 || (file.path == path && file.file_class == file_class)) return true;
    return may_be_of(file_class, file.fd);
}

ShadowFile& Files::opened(std::uint64_t device, std::uint64_t inode, std::string_view path, std::uint64_t flags,
                          std::uint32_t file_class) {
    // Who only writes says nothing about how the file is read, but closes it as others do.
    const bool only_writes = (flags & O_ACCMODE) == O_WRONLY;
    const auto known = by_inode_.find({device, inode});
    if (known != by_inode_.end() && (only_writes || !may_be_called(*known->second, path, file_class))) {
        known->second->openings++;
        return *known->second;
    }
    ShadowFile& file = add(device, inode, path);
    file.file_class = file_class;
    if (!only_writes) is_read(file, (flags & O_DIRECT) != 0);
    file.named = false;
    file.refused.reset();
    file.openings++;
    file.sized = false;
    for (ShadowFile::Header& header : file.headers) header.looked.reset();
    return file;
}

void Files::is_read(ShadowFile& file, bool direct) const {
    file.direct = direct;
    file.served = direct && spec_.module().files[file.file_class].immutable;
}

void Files::closed(std::uint64_t device, std::uint64_t inode) {
    const auto found = by_inode_.find({device, inode});
    if (found != by_inode_.end() && found->second->openings != 0) found->second->openings--;
}

ShadowFile* Files::find(std::uint64_t device, std::uint64_t inode) {
    const auto found = by_inode_.find({device, inode});
    if (found == by_inode_.end()) return nullptr;
    touch(found->second);
    return &*found->second;
}

std::string Files::path_of(std::uint64_t key) const {
    for (const List* list : {&opened_, &closed_}) {
        const auto found = std::ranges::find(*list, key, &ShadowFile::key);
        if (found != list->end()) return found->path;
    }
    return {};
}

std::expected<ShadowFile*, FileRefusal> Files::search(std::uint32_t process, std::uint64_t device, std::uint64_t inode,
                                                      std::uint32_t file_class) {
    const std::string base = "/proc/" + std::to_string(process) + "/fd";
    DIR* directory = opendir(base.c_str());
    if (directory == nullptr) return std::unexpected(FileRefusal::no_path);
    std::expected<ShadowFile*, FileRefusal> result = std::unexpected(FileRefusal::no_path);
    for (std::uint32_t seen = 0; !result && seen < kMostSearched; seen++) {
        const dirent* entry = readdir(directory);
        if (entry == nullptr) break;
        struct stat info{};
        if (fstatat(dirfd(directory), entry->d_name, &info, 0) != 0) continue;
        if (info.st_dev != device || info.st_ino != inode) continue;
        char path[4096];
        const ssize_t length = readlinkat(dirfd(directory), entry->d_name, path, sizeof path);
        if (length <= 0 || path[0] != '/' || static_cast<std::size_t>(length) >= sizeof path) continue;
        path[length] = 0;
        if (!matches(file_class, path)) {
            result = std::unexpected(FileRefusal::no_match);
            continue;
        }
        result = &add(device, inode, path);
        (*result)->file_class = file_class;
        (*result)->named = false;
    }
    closedir(directory);
    return result;
}

ShadowFile* Files::take(const Opened& made, const std::string& path, std::uint32_t file_class, std::uint64_t now_ns) {
    const auto& [fd, info] = made;
    ShadowFile& file = add(info.st_dev, info.st_ino, path);
    file.file_class = file_class;
    file.sized = true;
    file.checked_ns = now_ns;
    file.size = static_cast<std::uint64_t>(info.st_size);
    if (file.fd >= 0) {
        close(fd);
        return &file;
    }
    file.pins++;
    close_some();
    file.pins--;
    has_opened(file, fd, file.size);
    return &file;
}

std::expected<ShadowFile*, FileRefusal> Files::by_path(const std::string& root, const std::string& relative,
                                                       const std::string& path, std::uint32_t file_class,
                                                       std::uint64_t now_ns) {
    if (!matches(file_class, path.c_str())) return std::unexpected(FileRefusal::no_match);
    if (const auto known = by_path_.find(path); known != by_path_.end()) {
        ShadowFile* file = find(known->second.device, known->second.inode);
        if (file != nullptr && file->fd >= 0 && elapsed_ns(file->checked_ns, now_ns) < kPathGoodFor) return file;
    }
    const auto made =
        root.empty() ? open_regular(AT_FDCWD, path.c_str(), 0, file_class) : open_beneath(root, relative, file_class);
    if (!made) return std::unexpected(made.error());
    return take(*made, path, file_class, now_ns);
}

std::expected<ShadowFile*, FileRefusal> Files::sibling(const ShadowFile& file, std::string_view ending,
                                                       std::uint32_t file_class, std::uint64_t now_ns) {
    return by_path({}, {}, with_ending(file.path, ending), file_class, now_ns);
}

std::expected<ShadowFile*, FileRefusal> Files::under_root(std::string_view encoded, std::uint32_t file_class,
                                                          std::uint64_t now_ns) {
    auto relative = decode_path(encoded);
    if (!relative) return std::unexpected(FileRefusal::leaves_root);
    const ir::FileClass& declared = spec_.module().files[file_class];
    if (declared.root.empty()) return std::unexpected(FileRefusal::cannot_open);
    if (relative->empty() || relative->ends_with('/')) *relative += declared.index;
    if (relative->empty()) return std::unexpected(FileRefusal::leaves_root);
    std::string path = declared.root;
    if (!path.ends_with('/')) path += '/';
    return by_path(declared.root, *relative, path + *relative, file_class, now_ns);
}

std::string Files::shown_path(std::string_view encoded, std::uint32_t file_class) const {
    std::string path = spec_.module().files[file_class].root;
    if (!path.ends_with('/')) path += '/';
    return path + decode_path(encoded).value_or(std::string(encoded));
}

const std::vector<std::uint64_t>* Files::header(ShadowFile& file, std::uint32_t file_class) {
    auto known = std::ranges::find(file.headers, file_class, &ShadowFile::Header::file_class);
    if (known == file.headers.end()) known = file.headers.insert(known, {.file_class = file_class, .fields = {}});
    if (known->looked != looks_) look_at(file, *known);
    known->looked = looks_;
    return known->fields ? &*known->fields : nullptr;
}

// What is no header may become one, and a file that is made anew in its place, as by VACUUM, get another one. The stamp
// is from before the header is read, so that what changes meanwhile is a change.
void Files::look_at(ShadowFile& file, ShadowFile::Header& header) {
    struct stat info{};
    const bool told = fstat(file.fd, &info) == 0;
    if (told) file.size = static_cast<std::uint64_t>(info.st_size);
    if (told && header.stamp != 0 && shim::stamp_of(info) == header.stamp) return;
    header.stamp = told && is_settled(info, file.seen) ? shim::stamp_of(info) : 0;
    read_header(file, header);
}

void Files::read_header(const ShadowFile& file, ShadowFile::Header& header) {
    const ir::FileClass& declared = spec_.module().files[header.file_class];
    header.fields.reset();
    if (declared.header_program < 0) {
        header.fields.emplace();
        return;
    }
    std::vector<std::uint8_t> first(std::min<std::uint32_t>(declared.header_bytes, CIO_MAX_BLOCK));
    const ssize_t got = pread(file.fd, first.data(), first.size(), 0);
    first.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (auto read = engine::run_header(spec_, header.file_class, first)) header.fields = std::move(*read);
}

}  // namespace chainio::shadow
