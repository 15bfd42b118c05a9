// Ways to read that nobody here sees, which the report is to name: rings of io_uring, contexts of kernel AIO, and the
// threads of POSIX AIO. No read of a process that has a ring or a context is served from then on.
#include <aio.h>

#include "runtime/shim/next.h"
#include "runtime/shim/shim.h"

namespace chainio::shim {
namespace {

// A library may do so before the run's own constructor.
int set_up(Note note, int result) {
    if (result >= 0 && start()) post_note(note, nullptr);
    return result;
}

bool is_read_of_matched(const aiocb* one) {
    const Slot* slot = one ? table.watched(one->aio_fildes) : nullptr;
    return slot && slot->kind() == Kind::file;
}

bool any_read_of_matched(int mode, aiocb* const* list, int count) {
    if (mode != LIO_WAIT && mode != LIO_NOWAIT) return false;  // libc looks no further then
    for (int i = 0; i < count; ++i)
        if (list[i] && list[i]->aio_lio_opcode == LIO_READ && is_read_of_matched(list[i])) return true;
    return false;
}

// Once for each process.
void reads_by_threads() {
    if (live_region() && process().reads_by_threads.exchange(1) == 0) post_note(Note::posix_aio, nullptr);
}

}  // namespace

// libaio's own, which returns minus the error. Another library may have a function of that name that is something else.
CHAINIO_CALL(int, io_setup, unsigned count, unsigned long* context) {
    const int result = CHAINIO_NEXT(io_setup)(count, context);
    if (result == 0) post_note(Note::aio, nullptr);
    return result;
}

// liburing's, which make the system call themselves and return minus the error.
#define CHAINIO_SETS_UP(name, parameters, ...)                            \
    CHAINIO_CALL(int, name, CHAINIO_LIST parameters) {                    \
        auto* next = CHAINIO_NEXT_FOR(name, __builtin_return_address(0)); \
        return set_up(Note::io_uring, next(__VA_ARGS__));                 \
    }
#define CHAINIO_LIST(...) __VA_ARGS__
CHAINIO_SETS_UP(io_uring_queue_init, (unsigned entries, void* ring, unsigned flags), entries, ring, flags)
CHAINIO_SETS_UP(io_uring_queue_init_params, (unsigned entries, void* ring, void* parameters), entries, ring, parameters)
CHAINIO_SETS_UP(io_uring_queue_init_mem,
                (unsigned entries, void* ring, void* parameters, void* memory, std::size_t bytes), entries, ring,
                parameters, memory, bytes)
CHAINIO_SETS_UP(io_uring_setup, (unsigned entries, void* parameters), entries, parameters)

#define CHAINIO_AIO_READ(name)                                           \
    CHAINIO_CALL(int, name, aiocb* one) {                                \
        if (is_read_of_matched(one)) reads_by_threads();                 \
        return CHAINIO_NEXT_FOR(name, __builtin_return_address(0))(one); \
    }
CHAINIO_AIO_READ(aio_read)
CHAINIO_AIO_READ(aio_read64)

#define CHAINIO_LIO_LISTIO(name)                                                             \
    CHAINIO_CALL(int, name, int mode, aiocb* const* list, int count, sigevent* told) {       \
        if (any_read_of_matched(mode, list, count)) reads_by_threads();                      \
        return CHAINIO_NEXT_FOR(name, __builtin_return_address(0))(mode, list, count, told); \
    }
CHAINIO_LIO_LISTIO(lio_listio)
CHAINIO_LIO_LISTIO(lio_listio64)

}  // namespace chainio::shim
