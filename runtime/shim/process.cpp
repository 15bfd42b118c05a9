// Processes: other programs that this one becomes or starts, children that share its memory, and what it sets up to do
// I/O by ways that nobody here sees.
#include <fcntl.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstring>

#include "runtime/shim/next.h"
#include "runtime/shim/program_file.h"
#include "runtime/shim/reach.h"
#include "runtime/shim/rewrite.h"
#include "runtime/shim/shim.h"
#include "runtime/shim/straight.h"

namespace chainio::shim {
namespace {

// Whether the program's loader would complain about us.
bool note_program(const Place& place) {
    if (!live_region() || !place.path) return false;
    const LookedAt looked = look_at_program(place);
    switch (looked.file) {
        case ProgramFile::without_loader: post_note(Note::static_program, place.path); break;
        case ProgramFile::narrow: post_note(Note::narrow_program, place.path); break;
        case ProgramFile::foreign: post_note(Note::foreign_program, place.path); break;
        case ProgramFile::other_library: post_note(Note::other_library, place.path); break;
        case ProgramFile::unknown: post_note(Note::not_judged, nullptr); break;  // the path may be any address
        case ProgramFile::other:
            if (is_another_user()) post_note(Note::other_user, nullptr);
            break;
        case ProgramFile::none: break;
    }
    return looked.file == ProgramFile::narrow || looked.file == ProgramFile::foreign || looked.is_refused_us;
}
bool note_program(const char* path) { return note_program({AT_FDCWD, path, 0}); }

// The same of the shell that libc starts.
bool is_refused_by_shell() { return live_region() && look_at_program({AT_FDCWD, "/bin/sh", 0}).is_refused_us; }

// As execvp looks for it. The name is only looked at here; what is executed is up to libc.
[[gnu::noinline]] bool search(const char* name) {
    const char* folders = getenv("PATH");
    if (!folders) folders = "/bin:/usr/bin";
    char path[kMaxPath + 1];
    while (true) {
        const char* end = strchrnul(folders, ':');
        const auto length = static_cast<std::size_t>(end - folders);
        if (length + std::strlen(name) + 2 <= sizeof path) {
            std::memcpy(path, folders, length);
            path[length] = '/';
            std::strcpy(path + length + (length != 0 ? 1 : 0), name);
            if (!failed(raw_call(SYS_faccessat, AT_FDCWD, word(path), X_OK))) return note_program(path);
        }
        if (!*end) return false;
        folders = end + 1;
    }
}

bool note_searched(const char* name) {
    if (!live_region() || !name) return false;
    return std::strchr(name, '/') ? note_program(name) : search(name);
}

// How many there are behind the first, with the null pointer that ends them.
std::size_t count_arguments(const char* first, va_list list) {
    if (!first) return 0;
    std::size_t count = 1;
    while (va_arg(list, char*)) ++count;
    return count;
}

}  // namespace

// The next program of this thread takes a ring of its own. A child of vfork leaves its parent's alone.
void leaving() {
    if (region() && static_cast<std::uint32_t>(raw_call(SYS_getpid)) == process_id(process())) release_ring(process());
}

bool executes(const char* path) {
    const bool complains = note_program(path);
    leaving();
    return complains;
}

// The id must be there before the child could be the first to ask for it.
void may_share_memory() {
    if (!region()) return;
    process_id(process());
    producer.may_be_vfork_child = true;
}

// The child returns first, into the caller's frame: nothing of ours may be on the stack then.
CHAINIO_CALL(pid_t, vfork) {
    may_share_memory();
    [[clang::musttail]] return CHAINIO_NEXT(vfork)();
}
CHAINIO_CALL(pid_t, __vfork) {
    may_share_memory();
    [[clang::musttail]] return CHAINIO_NEXT(__vfork)();
}

// A thread that is alone may ask for its own end, and meets it in libc's functions only. Of the variable that says that
// it is alone, a program that has a copy has the wrong one then.
CHAINIO_CALL(int, pthread_cancel, pthread_t thread) {
    next_is_libc.store(false, std::memory_order_relaxed);
    return CHAINIO_NEXT(pthread_cancel)(thread);
}

// By hand, a thread is made that libc does not know. What nobody passed is handed on and read by nobody.
CHAINIO_CALL(int, clone, int (*function)(void*), void* stack, int flags, void* argument, long parent, long local,
             long child) {
    starts_child(static_cast<unsigned>(flags));
    [[clang::musttail]] return CHAINIO_NEXT(clone)(function, stack, flags, argument, parent, local, child);
}

CHAINIO_CALL(int, execve, const char* path, char* const* arguments, char* const* environment) {
    const bool complains = executes(path);
    CHAINIO_ENVIRONMENT_FOR_NEXT(environment, complains);
    return CHAINIO_NEXT(execve)(path, arguments, environment);
}
CHAINIO_CALL(int, execv, const char* path, char* const* arguments) {
    const bool complains = executes(path);
    char* const* environment = environ;
    CHAINIO_ENVIRONMENT_FOR_NEXT(environment, complains);
    if (environment != environ) [[unlikely]]
        return CHAINIO_NEXT(execve)(path, arguments, environment);
    return CHAINIO_NEXT(execv)(path, arguments);
}
CHAINIO_CALL(int, execvpe, const char* name, char* const* arguments, char* const* environment) {
    const bool complains = note_searched(name);
    leaving();
    CHAINIO_ENVIRONMENT_FOR_NEXT(environment, complains);
    return CHAINIO_NEXT(execvpe)(name, arguments, environment);
}
CHAINIO_CALL(int, execvp, const char* name, char* const* arguments) {
    const bool complains = note_searched(name);
    leaving();
    char* const* environment = environ;
    CHAINIO_ENVIRONMENT_FOR_NEXT(environment, complains);
    if (environment != environ) [[unlikely]]
        return CHAINIO_NEXT(execvpe)(name, arguments, environment);
    return CHAINIO_NEXT(execvp)(name, arguments);
}
CHAINIO_CALL(int, fexecve, int fd, char* const* arguments, char* const* environment) {
    const bool complains = note_program({fd, "", AT_EMPTY_PATH});
    leaving();
    CHAINIO_ENVIRONMENT_FOR_NEXT(environment, complains);
    return CHAINIO_NEXT(fexecve)(fd, arguments, environment);
}
CHAINIO_CALL(int, execveat, int folder, const char* path, char* const* arguments, char* const* environment, int flags) {
    const bool complains = note_program({folder, path, flags});
    leaving();
    CHAINIO_ENVIRONMENT_FOR_NEXT(environment, complains);
    return CHAINIO_NEXT(execveat)(folder, path, arguments, environment, flags);
}

// The list becomes a vector on the stack, as in libc.
#define CHAINIO_EXEC_LIST(first, call)                                                     \
    va_list list, copy;                                                                    \
    va_start(list, first);                                                                 \
    va_copy(copy, list);                                                                   \
    const std::size_t count = count_arguments(first, copy);                                \
    va_end(copy);                                                                          \
    auto** arguments = static_cast<char**>(__builtin_alloca((count + 1) * sizeof(char*))); \
    arguments[0] = const_cast<char*>(first);                                               \
    for (std::size_t i = 1; i <= count; ++i) arguments[i] = va_arg(list, char*);           \
    const int result = call;                                                               \
    va_end(list);                                                                          \
    return result

CHAINIO_CALL(int, execl, const char* path, const char* first, ...) {
    CHAINIO_EXEC_LIST(first, chainio_shim_execv(path, arguments));
}
CHAINIO_CALL(int, execlp, const char* name, const char* first, ...) {
    CHAINIO_EXEC_LIST(first, chainio_shim_execvp(name, arguments));
}
CHAINIO_CALL(int, execle, const char* path, const char* first, ...) {
    CHAINIO_EXEC_LIST(first, chainio_shim_execve(path, arguments, va_arg(list, char**)));
}

CHAINIO_CALL(int, posix_spawn, pid_t* child, const char* path, const posix_spawn_file_actions_t* actions,
             const posix_spawnattr_t* attributes, char* const* arguments, char* const* environment) {
    const bool complains = note_program(path);
    CHAINIO_ENVIRONMENT_FOR_NEXT(environment, complains);
    return CHAINIO_NEXT(posix_spawn)(child, path, actions, attributes, arguments, environment);
}
CHAINIO_CALL(int, posix_spawnp, pid_t* child, const char* name, const posix_spawn_file_actions_t* actions,
             const posix_spawnattr_t* attributes, char* const* arguments, char* const* environment) {
    const bool complains = note_searched(name);
    CHAINIO_ENVIRONMENT_FOR_NEXT(environment, complains);
    return CHAINIO_NEXT(posix_spawnp)(child, name, actions, attributes, arguments, environment);
}

// Their shell gets the environment as it is.
CHAINIO_CALL(int, system, const char* command) {
    leave_environment(is_refused_by_shell());
    return CHAINIO_NEXT(system)(command);
}
CHAINIO_CALL(FILE*, popen, const char* command, const char* mode) {
    leave_environment(is_refused_by_shell());
    return CHAINIO_NEXT(popen)(command, mode);
}

// Read from a file, as any program reads them: a filter may end the process for prctl(), which would tell, too.
[[gnu::noinline]] bool is_filtered() {
    static constexpr char kKey[] = "\nSeccomp:\t";
    const long fd = raw_call(SYS_openat, AT_FDCWD, word("/proc/thread-self/status"), O_RDONLY | O_CLOEXEC);
    if (failed(fd)) return true;
    unsigned matched = 0;
    char text[1024], value = '0';
    for (long got = 1; got > 0 && value == '0';) {
        got = raw_call(SYS_read, fd, word(text), sizeof text);
        for (long i = 0; i < got; ++i) {
            const bool whole = kKey[matched] == 0;
            if (whole) value = text[i];
            matched = !whole && text[i] == kKey[matched] ? matched + 1 : text[i] == kKey[0] ? 1 : 0;
        }
    }
    raw_call(SYS_close, fd);
    return value != '0';
}

// A process that allows itself few system calls could be ended by one of ours: from then on it makes only its own.
CHAINIO_CALL(int, prctl, int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d) {
    if (option == PR_SET_SECCOMP && region()) {
        post_note(Note::sandbox, nullptr);
        ask_no_more();
        stop();
    }
    return CHAINIO_NEXT(prctl)(option, a, b, c, d);
}

// libaio's own, which returns minus the error. Another library may have a function of that name that is something else.
CHAINIO_CALL(int, io_setup, unsigned count, unsigned long* context) {
    const int result = CHAINIO_NEXT(io_setup)(count, context);
    if (result == 0) post_note(Note::aio, nullptr);
    return result;
}

}  // namespace chainio::shim
