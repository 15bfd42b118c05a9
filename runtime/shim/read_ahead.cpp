// Files of `no_read_ahead` classes: the kernel reads what a program asks for, and nothing ahead.
#include <fcntl.h>

#include "runtime/shim/next.h"
#include "runtime/shim/shim.h"

namespace chainio::shim {
namespace {

bool may_advise() {
    static constinit std::atomic<bool> said{false};
    const Filter filter = filter_of_process();
    if (filter == Filter::some && !said.exchange(true)) post_note(Note::filtered, nullptr);
    return filter == Filter::none;
}

}  // namespace

// Only what the process has opened itself: others may read by an inherited descriptor, too.
void read_nothing_ahead(Region& region, int descriptor, std::uint64_t flags) {
    const Slot* slot = table.watched(descriptor);
    if (!slot || slot->kind() != Kind::file || (flags & O_DIRECT) || (flags & O_ACCMODE) == O_WRONLY) return;
    const unsigned rule = slot->rule() % kMaxClasses;
    if (!(region.class_posts[rule].load(std::memory_order_relaxed) & kNoReadAhead) || !may_advise()) return;
    if (failed(raw_call(SYS_fadvise64, descriptor, 0, 0, POSIX_FADV_RANDOM))) return;
    table.opening(*slot).advised.store(1, std::memory_order_relaxed);
    region.stats.classes[rule].no_read_ahead.fetch_add(1, std::memory_order_relaxed);
}

void read_ahead_again(const Region& region, int descriptor, const Slot& slot) {
    Opening& opening = table.opening(slot);
    if (opening.advised.load(std::memory_order_relaxed) == 0) return;
    if (region.class_posts[slot.rule() % kMaxClasses].load(std::memory_order_relaxed) & kNoReadAhead) return;
    if (opening.advised.exchange(0, std::memory_order_relaxed) != 0)
        raw_call(SYS_fadvise64, descriptor, 0, 0, POSIX_FADV_NORMAL);
}

// Other kinds of advice are of pages, and leave the file as it was.
void advised_by_program(int descriptor, int advice) {
    const Slot* slot = table.watched(descriptor);
    if (advice != POSIX_FADV_NORMAL && advice != POSIX_FADV_RANDOM && advice != POSIX_FADV_SEQUENTIAL) return;
    if (slot && slot->kind() == Kind::file) table.opening(*slot).advised.store(0, std::memory_order_relaxed);
}

// The last word counts, and it is the program's.
CHAINIO_CALL(int, posix_fadvise, int fd, off_t offset, off_t length, int advice) {
    advised_by_program(fd, advice);
    return CHAINIO_NEXT(posix_fadvise)(fd, offset, length, advice);
}
CHAINIO_CALL(int, posix_fadvise64, int fd, off_t offset, off_t length, int advice) {
    advised_by_program(fd, advice);
    return CHAINIO_NEXT(posix_fadvise64)(fd, offset, length, advice);
}

}  // namespace chainio::shim
