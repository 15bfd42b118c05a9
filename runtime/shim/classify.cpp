// Which class or socket of the plan a new descriptor belongs to.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#include <cstddef>
#include <cstring>

#include "runtime/shim/descriptor_link.h"
#include "runtime/shim/endings.h"
#include "runtime/shim/glob.h"
#include "runtime/shim/kernels_clock.h"
#include "runtime/shim/shim.h"

namespace chainio::shim {

namespace {

const char* last_part(const char* path) {
    const char* slash = std::strrchr(path, '/');
    return slash ? slash + 1 : path;
}

// Most classes are refused by one character: that with which both must end.
bool ends_alike(const char* pattern, const char* path) {
    const std::size_t length = std::strlen(pattern), path_length = std::strlen(path);
    if (length == 0 || path_length == 0) return length == path_length;
    const char last = pattern[length - 1];
    if (last == '*' || last == '?' || last == ']' || last == '\\') return true;
    return last == path[path_length - 1];
}

int class_of(const Plan& plan, const char* path) {
    for (unsigned i = 0; i < plan.class_count; ++i) {
        const char* pattern = plan.classes[i].pattern;
        if (ends_alike(pattern, path) && glob_matches(pattern, path)) return static_cast<int>(i);
    }
    return kNoRule;
}

using Path = char[kMaxPath + 1];

// Paths for all threads, since one takes much of a small stack: a signal handler's, or a thread's. A handler that jumps
// away keeps its one, and a child of fork those that other threads had.
struct Lent {
    std::atomic<bool> taken;
    Path path;
};
constinit Lent lent[16] = {};

template <class Use>
[[gnu::noinline]] void with_path_on_stack(Use use) {
    Path path;
    use(path);
}

template <class Use>
void with_path(Use use) {
    for (Lent& each : lent) {
        if (each.taken.exchange(true, std::memory_order_acquire)) continue;
        use(each.path);
        return each.taken.store(false, std::memory_order_release);
    }
    with_path_on_stack(use);
}

// The kernel's own name of an open file: absolute, without links and dots. Empty when there is none.
std::size_t name_of_descriptor(int descriptor, Path& out) {
    const DescriptorLink link(descriptor);
    const long length = raw_call(SYS_readlinkat, AT_FDCWD, word(link.text), word(out), kMaxPath);
    out[failed(length) ? 0 : length] = 0;
    return out[0] == '/' ? std::strlen(out) : 0;
}

void post_text(Region& region, EventKind kind, const char* text, int source = 0, Passed why = Passed::unmatched) {
    Event event{};
    event.kind = kind;
    event.source = static_cast<std::uint8_t>(source);
    event.offset = static_cast<std::uint64_t>(why);
    event.length = static_cast<std::uint32_t>(strnlen(text, kMaxPath));
    post(region, event, text, event.length);
}

// A folder, a pipe or a device is in no class, whatever its name.
void explain_no_file(Region& region, const char* path) {
    if (region.plan.explain != 0) post_text(region, EventKind::passed, path, 0, Passed::no_file);
}

void watch_as(Region& region, int descriptor, const struct stat& status, const char* path, unsigned rule,
              std::uint64_t flags) {
    if (!S_ISREG(status.st_mode)) return explain_no_file(region, path);
    const bool direct = (flags & O_DIRECT) != 0, immutable = (region.plan.classes[rule].flags & kImmutable) != 0;
    const bool only_reads = (flags & O_ACCMODE) == O_RDONLY;
    const Reads reads = !direct ? Reads::cached : immutable && only_reads ? Reads::served : Reads::direct;
    // Reads past the page cache that cannot be served either are nobody's concern: the server is told of the opening
    // alone.
    const bool left_alone = direct && !immutable;
    if (!left_alone && !table.put_file(descriptor, rule, status.st_dev, status.st_ino, reads)) return;
    const std::uint32_t posts = region.class_posts[rule].load(std::memory_order_relaxed);
    if (!(posts & kPostOpens)) return;
    Event event{};
    event.kind = EventKind::opened;
    event.source = static_cast<std::uint8_t>(rule);
    event.device = status.st_dev;
    event.inode = status.st_ino;
    event.offset = flags;
    event.length = static_cast<std::uint32_t>(strnlen(path, kMaxPath));
    post(region, event, path, event.length);
    const bool only_writes = (flags & O_ACCMODE) == O_WRONLY;
    if ((posts & kWakeOpens) && !only_writes) wake(region);
}

void watch_as(Region& region, int descriptor, const char* path, unsigned rule, std::uint64_t flags) {
    struct stat status;
    if (!failed(raw_call(SYS_fstat, descriptor, word(&status))))
        watch_as(region, descriptor, status, path, rule, flags);
}

// The class that the file's name belongs to, which is in `path` then.
int resolve_in(Path& path, Region& region, int descriptor, const char* given) {
    const bool named = name_of_descriptor(descriptor, path) != 0;
    const int found = named && (!given || may_match(region.plan, given)) ? class_of(region.plan, path) : kNoRule;
    if (found == kNoRule && region.plan.explain != 0)
        post_text(region, EventKind::passed, named || !given ? path : given, 0,
                  given ? Passed::unmatched : Passed::inherited);
    return found;
}

// The kernel's name of a matched file that was opened by some other path a moment ago: asking for it costs as much as
// all else that an open does. It is believed of a file of one name that has not changed since, as a renamed one has.
// The folders above may have got other names meanwhile, so that it is not believed for long.
struct Known {
    std::atomic<bool> taken;
    std::uint64_t given, until;
    std::uint64_t device, inode;
    timespec changed;
    unsigned rule;
    Path path;
};
constinit Known known_files[16] = {};
constexpr std::uint64_t kBelievedNs = 10'000'000;

std::uint64_t hash_of(const char* text) {
    std::uint64_t hash = length_of(text);
    for (std::size_t left = hash; left != 0;) {
        std::uint64_t part = 0;
        const std::size_t bytes = left < sizeof part ? left : sizeof part;
        std::memcpy(&part, text, bytes);
        hash = (hash ^ part) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 32;
        text += bytes;
        left -= bytes;
    }
    return hash;
}

bool has_one_name(const struct stat& status) { return S_ISREG(status.st_mode) && status.st_nlink == 1; }

bool is_still(const Known& file, const struct stat& status) {
    return has_one_name(status) && status.st_dev == file.device && status.st_ino == file.inode &&
           status.st_ctim.tv_sec == file.changed.tv_sec && status.st_ctim.tv_nsec == file.changed.tv_nsec;
}

void remember(Known& file, std::uint64_t given, const struct stat& status, unsigned rule) {
    file.given = has_one_name(status) ? given : 0;
    file.until = kernels_now_ns() + kBelievedNs;
    file.device = status.st_dev;
    file.inode = status.st_ino;
    file.changed = status.st_ctim;
    file.rule = rule;
}

void watch_in(Known& file, std::uint64_t hash, Region& region, int descriptor, const char* given, std::uint64_t flags) {
    struct stat status;
    const bool may_be_known = file.given == hash && kernels_now_ns() < file.until;
    if (may_be_known && !failed(raw_call(SYS_fstat, descriptor, word(&status))) && is_still(file, status))
        return watch_as(region, descriptor, status, file.path, file.rule, flags);
    file.given = 0;
    const int found = resolve_in(file.path, region, descriptor, given);
    if (found == kNoRule || failed(raw_call(SYS_fstat, descriptor, word(&status)))) return;
    remember(file, hash, status, static_cast<unsigned>(found));
    watch_as(region, descriptor, status, file.path, file.rule, flags);
}

void watch_resolved(Region& region, int descriptor, const char* given, std::uint64_t flags) {
    const std::uint64_t hash = given ? hash_of(given) : 0;
    Known& file = known_files[hash % (sizeof known_files / sizeof *known_files)];
    if (given && !file.taken.exchange(true, std::memory_order_acquire)) {
        watch_in(file, hash, region, descriptor, given, flags);
        return file.taken.store(false, std::memory_order_release);
    }
    with_path([&](Path& path) {
        const int found = resolve_in(path, region, descriptor, given);
        if (found != kNoRule) watch_as(region, descriptor, path, static_cast<unsigned>(found), flags);
    });
}

// It counts as opened anew by the rule that it has, whatever path it was matched by.
void watch_anew(Region& region, int descriptor, unsigned rule) {
    const long flags = raw_call(SYS_fcntl, descriptor, F_GETFL);
    if (failed(flags)) return;
    with_path([&](Path& path) {
        if (name_of_descriptor(descriptor, path) != 0)
            watch_as(region, descriptor, path, rule, static_cast<std::uint64_t>(flags));
    });
}

// The path counts as it was given when that is absolute, else as the kernel resolves it.
void watch_file(Region& region, int descriptor, const char* given, std::uint64_t flags) {
    const bool absolute = given && given[0] == '/';
    const int found = absolute ? class_of(region.plan, given) : kNoRule;
    if (found != kNoRule) return watch_as(region, descriptor, given, static_cast<unsigned>(found), flags);
    if (!given || region.plan.explain != 0 || may_match(region.plan, given))
        watch_resolved(region, descriptor, given, flags);
}

// What no read can be told of by, or no name can match: O_TMPFILE has O_DIRECTORY in it.
bool is_no_file(std::uint64_t flags) { return (flags & (O_PATH | O_DIRECTORY)) != 0; }

// A file without a name lies in the folder that was given.
void explain_no_file(Region& region, int descriptor, const char* given, std::uint64_t flags) {
    if (region.plan.explain == 0) return;
    if ((flags & O_PATH) == 0 && (flags & O_TMPFILE) == O_TMPFILE)
        return post_text(region, EventKind::passed, given, 0, Passed::unnamed);
    const Passed why = (flags & O_PATH) != 0 ? Passed::place : Passed::no_file;
    with_path([&](Path& path) {
        const bool named = name_of_descriptor(descriptor, path) != 0;
        post_text(region, EventKind::passed, named ? path : given, 0, why);
    });
}

// Ports are compared in the byte order of the machine. 0: not an IP address.
std::uint16_t port_in(const void* address, unsigned bytes) {
    static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
    sockaddr_in head;
    if (!address || bytes < sizeof head) return 0;
    std::memcpy(&head, address, sizeof head);
    return head.sin_family == AF_INET || head.sin_family == AF_INET6 ? ntohs(head.sin_port) : 0;
}

std::uint16_t port_of(int descriptor, long call) {
    sockaddr_storage address{};
    socklen_t bytes = sizeof address;
    return failed(raw_call(call, descriptor, word(&address), word(&bytes))) ? 0 : port_in(&address, bytes);
}

int option(int descriptor, int name) {
    int value = 0;
    socklen_t bytes = sizeof value;
    return failed(raw_call(SYS_getsockopt, descriptor, SOL_SOCKET, name, word(&value), word(&bytes))) ? -1 : value;
}

int socket_rule(const Plan& plan, std::uint16_t port, bool tcp) {
    for (unsigned i = 0; i < plan.socket_count && port != 0; ++i)
        if (plan.sockets[i].port == port && (plan.sockets[i].tcp != 0) == tcp) return static_cast<int>(i);
    return kNoRule;
}

// Asked before anything that takes a system call.
bool is_of_interest(const Plan& plan, std::uint16_t port) {
    for (unsigned i = 0; i < plan.socket_count; ++i)
        if (plan.sockets[i].port == port) return true;
    return plan.explain != 0;
}

// "connect tcp port 80": by hand, since printf may allocate.
void explain_socket(Region& region, const char* call, std::uint16_t port, bool tcp, int rule = kNoRule) {
    if (region.plan.explain == 0 || port == 0) return;
    char text[64];
    char* at = stpcpy(stpcpy(text, call), tcp ? " tcp port " : " udp port ");
    char digits[8];
    unsigned count = 0;
    for (unsigned rest = port; rest != 0; rest /= 10) digits[count++] = static_cast<char>('0' + rest % 10);
    while (count != 0) *at++ = digits[--count];
    *at = 0;
    post_text(region, EventKind::passed, text, rule == kNoRule ? 0 : rule + 1);
}

void watch_socket(Region& region, int descriptor, Kind kind, const char* call, std::uint16_t port) {
    const bool tcp = option(descriptor, SO_TYPE) == SOCK_STREAM;
    const int found = socket_rule(region.plan, port, tcp);
    explain_socket(region, call, port, tcp, found);
    if (found == kNoRule) return;
    table.clear(descriptor);
    table.put_socket(descriptor, kind, static_cast<unsigned>(found));
}

}  // namespace

constinit Endings endings;

bool may_match(const Plan& plan, const char* path) {
    const char* part = last_part(path);
    for (unsigned i = 0; i < plan.class_count; ++i) {
        const char* pattern = plan.classes[i].pattern;
        if (!ends_alike(pattern, part)) continue;
        const char* tail = last_part(pattern);
        // A set may hold a '/', and `**` crosses one: then the last part of the pattern is not that of the path.
        if (std::strchr(pattern, '[') || std::strstr(tail, "**") || glob_matches(tail, part)) return true;
    }
    return false;
}

int may_end_alike(int descriptor, const char* path, std::uint64_t flags) {
    if (!table.may_be_watched(descriptor) && !endings.may_match(path)) return descriptor;
    return may_be_matched(descriptor, path, flags);
}

[[gnu::noinline]] int may_be_matched(int descriptor, const char* path, std::uint64_t flags) {
    Region* found = start();
    if (!found || descriptor < 0 || !path) return descriptor;
    if (static_cast<unsigned>(descriptor) >= kSlots) {
        static constinit std::atomic<bool> said{false};
        if (!in_vfork_child() && !said.exchange(true)) post_note(Note::descriptors, path);
        return descriptor;
    }
    closing(descriptor);  // a close that nobody saw
    if (!endings.may_match(path) || !live_region() || in_vfork_child()) return descriptor;
    if (is_no_file(flags)) {
        explain_no_file(*found, descriptor, path, flags);
    } else {
        watch_file(*found, descriptor, path, flags);
    }
    read_nothing_ahead(*found, descriptor, flags);
    return descriptor;
}

void post_note_of(Note note, int descriptor) {
    with_path([&](Path& path) {
        name_of_descriptor(descriptor, path);
        post_note(note, path);
    });
}

void inherited(int descriptor) {
    struct stat status;
    Region* found = region();
    if (!found || failed(raw_call(SYS_fstat, descriptor, word(&status)))) return;
    if (S_ISREG(status.st_mode) && found->plan.class_count != 0) {
        const long flags = raw_call(SYS_fcntl, descriptor, F_GETFL);
        // A lease outlives the execution of another program; the server would break it.
        const bool is_leased = raw_call(SYS_fcntl, descriptor, F_GETLEASE) == F_WRLCK;
        if (!failed(flags) && !(flags & O_PATH) && !is_leased)
            watch_file(*found, descriptor, nullptr, static_cast<std::uint64_t>(flags));
    } else if (S_ISSOCK(status.st_mode) && found->plan.socket_count != 0) {
        const bool listens = option(descriptor, SO_ACCEPTCONN) == 1;
        watch_socket(*found, descriptor, listens ? Kind::listener : Kind::socket, "inherit",
                     port_of(descriptor, SYS_getsockname));
        if (!listens && !table.watched(descriptor))
            watch_socket(*found, descriptor, Kind::socket, "inherit", port_of(descriptor, SYS_getpeername));
    }
}

void flags_set(int descriptor, std::uint64_t flags) {
    const Slot* slot = table.watched(descriptor);
    Region* found = live_region();
    if (!slot || slot->kind() != Kind::file || in_vfork_child() || !found) return;
    const bool was_direct = table.opening(*slot).reads.load(std::memory_order_relaxed) != Reads::cached;
    if (was_direct == ((flags & O_DIRECT) != 0)) return;
    const unsigned rule = slot->rule();
    closing(descriptor);
    watch_anew(*found, descriptor, rule);
}

int leave_alone(int descriptor) {
    const Slot* slot = table.watched(descriptor);
    if (!slot || slot->kind() != Kind::file || in_vfork_child() || !live_region()) return kNoRule;
    const int rule = static_cast<int>(slot->rule());
    const Opening& opening = table.opening(*slot);
    for (int other = 0; other <= table.highest(); ++other) {
        slot = table.watched(other);
        if (slot && slot->kind() == Kind::file && &table.opening(*slot) == &opening) closing(other);
    }
    return rule;
}

void watch_again(int descriptor, int rule) {
    Region* found = live_region();
    if (found) watch_anew(*found, descriptor, static_cast<unsigned>(rule));
}

void closing(int descriptor) {
    if (!table.watched(descriptor) || in_vfork_child()) return;
    const Closed closed = table.clear(descriptor);
    Region* found = live_region();
    if (!closed.last || !found) return;
    if (!(found->class_posts[closed.rule].load(std::memory_order_relaxed) & kPostOpens)) return;
    Event event{};
    event.kind = EventKind::closed;
    event.source = static_cast<std::uint8_t>(closed.rule);
    event.device = closed.device;
    event.inode = closed.inode;
    post(*found, event, nullptr, 0);
}

void duplicated(int from, int to) {
    if (from == to || to < 0 || (!table.watched(from) && !table.watched(to)) || in_vfork_child()) return;
    closing(to);
    table.duplicate(from, to);
}

void listening(int descriptor, const char* call, const void* address, unsigned bytes) {
    Region* found = start();
    if (!found || (found->plan.socket_count == 0 && found->plan.explain == 0)) return;
    std::uint16_t port = port_in(address, bytes);
    if (port == 0) port = port_of(descriptor, SYS_getsockname);
    if (!is_of_interest(found->plan, port) || !live_region() || in_vfork_child()) return;
    const bool tcp = option(descriptor, SO_TYPE) == SOCK_STREAM;
    if (tcp == (call[0] == 'b'))
        return;  // bound TCP sockets are looked at when they listen; nothing else is bound for good
    watch_socket(*found, descriptor, tcp ? Kind::listener : Kind::socket, call, port);
}

void accepted(int listener, int descriptor) {
    Region* found = live_region();
    if (!found || descriptor < 0 || in_vfork_child()) return;
    closing(descriptor);
    const Slot* slot = table.watched(listener);
    if (slot && slot->kind() == Kind::listener) return table.put_socket(descriptor, Kind::socket, slot->rule());
    if (found->plan.explain != 0) explain_socket(*found, "accept", port_of(listener, SYS_getsockname), true);
}

void connected(int descriptor, const void* address, unsigned bytes) {
    Region* found = start();
    const std::uint16_t port = port_in(address, bytes);
    if (!found || !is_of_interest(found->plan, port) || !live_region() || in_vfork_child()) return;
    watch_socket(*found, descriptor, Kind::socket, "connect", port);
}

}  // namespace chainio::shim
