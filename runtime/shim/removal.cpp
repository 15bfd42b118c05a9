// Files that go. The space of one that the server has open is not free before the server has closed it, and whoever has
// deleted it may need that at once.
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mount.h>

#include <cerrno>

#include "runtime/shim/kernels_clock.h"
#include "runtime/shim/next.h"
#include "runtime/shim/removal.h"
#include "runtime/shim/shim.h"
#include "runtime/shim/straight.h"

namespace chainio::shim {
namespace {

constexpr std::uint64_t kLongestRemovalNs = 20'000'000;
constexpr std::uint32_t kRemovalsInVain = 8;  // after so many a process waits no more

// Of one that was killed, the kernel has closed all. In another PID namespace it looks the same.
bool lives(std::uint32_t server) { return raw_call(SYS_kill, server, 0) != -ESRCH; }

bool has_let_go(Region& region, std::uint32_t asked) {
    const std::uint64_t until = kernels_now_ns() + kLongestRemovalNs;
    while (true) {
        const std::uint32_t done = region.let_go.load(std::memory_order_acquire);
        if (static_cast<std::int32_t>(done - asked) >= 0) return true;
        const std::uint64_t now = kernels_now_ns();
        if (now >= until) return false;
        const timespec rest{0, static_cast<long>(until - now)};
        const long waited = raw_call(SYS_futex, word(&region.let_go), FUTEX_WAIT, done, word(&rest));
        if (failed(waited) && waited != -EAGAIN && waited != -EINTR && waited != -ETIMEDOUT) return false;
    }
}

Answer ask_to_let_go(Region& region) {
    std::atomic<std::uint32_t>& in_vain = process().removals_in_vain;
    if (in_vain.load(std::memory_order_relaxed) >= kRemovalsInVain || !lives(region.server.load()))
        return Answer::nobody;
    const std::uint32_t asked = region.removals.fetch_add(1) + 1;
    wake(region);
    if (has_let_go(region, asked)) return Answer::gone;
    in_vain.fetch_add(1, std::memory_order_relaxed);
    return Answer::late;
}

// Apart from its caller, which nearly all paths leave at once.
[[gnu::noinline]] void have_let_go(Region& region) {
    if (ask_to_let_go(region) == Answer::late) post_note(Note::kept, nullptr);
}

// As libc makes them: by the older call where there is one.
int unlink_straight(const char* path) {
#ifdef SYS_unlink
    return straight(SYS_unlink, word(path));
#else
    return straight(SYS_unlinkat, AT_FDCWD, word(path), 0);
#endif
}
int rename_straight(const char* from, const char* to) {
#ifdef SYS_rename
    return straight(SYS_rename, word(from), word(to));
#else
    return straight(SYS_renameat, AT_FDCWD, word(from), AT_FDCWD, word(to));
#endif
}

}  // namespace

Answer have_closed_all() {
    Region* found = live_region();
    if (!found) return Answer::nobody;
    found->unmounts.fetch_add(1);
    return ask_to_let_go(*found);
}

Answer have_let_go_of_all() {
    const Region* found = live_region();
    return found && found->holds_files.load() != 0 ? have_closed_all() : Answer::nobody;
}

[[gnu::noinline]] void may_have_removed(const char* path) {
    Region* found = endings.may_match(path) ? live_region() : nullptr;
    if (found && found->holds_files.load() != 0 && may_match(found->plan, path)) have_let_go(*found);
}

// Afterwards, since only then is the path known to be readable, and the server sees of itself what has gone.
CHAINIO_CALL(int, unlink, const char* path) {
    const int result = goes_straight() ? unlink_straight(path) : CHAINIO_NEXT(unlink)(path);
    if (result == 0) removed(path);
    return result;
}
CHAINIO_CALL(int, unlinkat, int folder, const char* path, int flags) {
    const int result = goes_straight() ? straight(SYS_unlinkat, folder, word(path), flags)
                                       : CHAINIO_NEXT(unlinkat)(folder, path, flags);
    if (result == 0) removed(path);
    return result;
}
CHAINIO_CALL(int, remove, const char* path) {
    const int result = CHAINIO_NEXT(remove)(path);
    if (result == 0) removed(path);
    return result;
}

// A file that the server has open keeps its file system busy.
CHAINIO_CALL(int, umount, const char* path) {
    auto* next = CHAINIO_NEXT(umount);
    return without_open_files(EBUSY, [=] { return next(path); });
}
CHAINIO_CALL(int, umount2, const char* path, int flags) {
    auto* next = CHAINIO_NEXT(umount2);
    return without_open_files(EBUSY, [=] { return next(path, flags); });
}

// What goes is what had the new name.
CHAINIO_CALL(int, rename, const char* from, const char* to) {
    const int result = goes_straight() ? rename_straight(from, to) : CHAINIO_NEXT(rename)(from, to);
    if (result == 0) removed(to);
    return result;
}
CHAINIO_CALL(int, renameat, int from_folder, const char* from, int to_folder, const char* to) {
    const int result = goes_straight() ? straight(SYS_renameat, from_folder, word(from), to_folder, word(to))
                                       : CHAINIO_NEXT(renameat)(from_folder, from, to_folder, to);
    if (result == 0) removed(to);
    return result;
}
CHAINIO_CALL(int, renameat2, int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
    const int result = CHAINIO_NEXT(renameat2)(from_folder, from, to_folder, to, flags);
    if (result == 0) removed(to);
    return result;
}

}  // namespace chainio::shim
