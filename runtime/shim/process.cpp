// Processes: other programs that this one becomes or starts, children that share its memory, and what they may do.
#include <fcntl.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstring>

#include "runtime/shim/child.h"
#include "runtime/shim/next.h"
#include "runtime/shim/program_file.h"
#include "runtime/shim/reach.h"
#include "runtime/shim/rewrite.h"
#include "runtime/shim/shim.h"
#include "runtime/shim/straight.h"

namespace chainio::shim {
namespace {

constexpr int kSetUserDispatch = 59;  // PR_SET_SYSCALL_USER_DISPATCH, which older headers lack

void post_program(Note note, const Place& place) {
    if (place.is_descriptor()) return post_note_of(note, place.folder);
    post_note(note, place.path);
}

// Whether the program's loader would complain about us.
bool note_program(const Place& place) {
    if (!live_region() || !place.path) return false;
    const LookedAt looked = look_at_program(place);
    switch (looked.file) {
        case ProgramFile::without_loader: post_program(Note::static_program, place); break;
        case ProgramFile::narrow: post_program(Note::narrow_program, place); break;
        case ProgramFile::foreign: post_program(Note::foreign_program, place); break;
        case ProgramFile::other_library: post_program(Note::other_library, place); break;
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

// Some of its file actions make a child of posix_spawn look for its program from another folder. Which ones libc alone
// knows.
constinit std::atomic<bool> spawns_from_elsewhere{false};

// Whether a path that is given with these actions may lead the child elsewhere than here. It may be any address.
bool is_for_elsewhere(const char* path, const posix_spawn_file_actions_t* actions) {
    if (!actions || !spawns_from_elsewhere.load(std::memory_order_relaxed) || !live_region()) return false;
    char first = '/';
    return read_safely(word(path), &first, sizeof first) && first != '/';
}

bool say_not_judged() {
    post_note(Note::not_judged, nullptr);
    return false;
}

// As execvp looks for it. The name is only looked at here; what is executed is up to libc.
[[gnu::noinline]] bool search(const char* name, const posix_spawn_file_actions_t* actions) {
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
            if (is_for_elsewhere(path, actions)) return say_not_judged();
            if (!failed(raw_call(SYS_faccessat, AT_FDCWD, word(path), X_OK))) return note_program(path);
        }
        if (!*end) return false;
        folders = end + 1;
    }
}

bool note_spawned(const char* path, const posix_spawn_file_actions_t* actions) {
    return is_for_elsewhere(path, actions) ? say_not_judged() : note_program(path);
}

bool note_searched(const char* name, const posix_spawn_file_actions_t* actions = nullptr) {
    if (!live_region() || !name) return false;
    return std::strchr(name, '/') ? note_spawned(name, actions) : search(name, actions);
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
    Region* found = region();
    const bool is_it = found && static_cast<std::uint32_t>(raw_call(SYS_getpid)) == process_id(process());
    if (is_it && !in_vfork_child()) release_ring(*found, process());
}

bool executes(const Place& place) {
    const bool complains = note_program(place);
    leaving();
    return complains;
}
bool executes(const char* path) { return executes({AT_FDCWD, path, 0}); }

// Its numbers and where these are some must be there before the child could be the first to ask for them. Where the
// process is plain, the thread's own number is what tells it from the child.
void may_share_memory() {
    if (is_sandboxed()) return;
    if (region()) {
        process_id(process());
        pids_of(process());
    }
    if (!in_vfork_child()) producer.thread = static_cast<std::uint32_t>(raw_call(SYS_gettid));
    producer.may_be_vfork_child = true;
}

void starts_child(std::uint64_t flags) {
    if (flags & CLONE_FILES) own_descriptors_only();
    if (!(flags & CLONE_VM)) return;
    if (flags & CLONE_VFORK && !(flags & CLONE_SETTLS)) return may_share_memory();
    // Such a thread has no thread-local memory, or another's: nothing of ours may run in it.
    if (catching()) end_catching("it starts threads without libc; from then on its own system calls are not seen");
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
    go_straight_no_more();
    return CHAINIO_NEXT(pthread_cancel)(thread);
}

// By hand, a thread is made that libc does not know. What nobody passed is handed on and read by nobody.
#define CHAINIO_CLONE(name)                                                                                          \
    CHAINIO_CALL(int, name, int (*function)(void*), void* stack, int flags, void* argument, long parent, long local, \
                 long child) {                                                                                       \
        starts_child(static_cast<unsigned>(flags));                                                                  \
        [[clang::musttail]] return CHAINIO_NEXT(name)(function, stack, flags, argument, parent, local, child);       \
    }
CHAINIO_CLONE(clone)
CHAINIO_CLONE(__clone)

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
    const bool complains = executes({fd, "", AT_EMPTY_PATH});
    CHAINIO_ENVIRONMENT_FOR_NEXT(environment, complains);
    return CHAINIO_NEXT(fexecve)(fd, arguments, environment);
}
CHAINIO_CALL(int, execveat, int folder, const char* path, char* const* arguments, char* const* environment, int flags) {
    const bool complains = executes({folder, path, flags});
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

CHAINIO_CALL(int, posix_spawn_file_actions_addchdir_np, posix_spawn_file_actions_t* actions, const char* path) {
    spawns_from_elsewhere.store(true, std::memory_order_relaxed);
    return CHAINIO_NEXT(posix_spawn_file_actions_addchdir_np)(actions, path);
}
CHAINIO_CALL(int, posix_spawn_file_actions_addfchdir_np, posix_spawn_file_actions_t* actions, int folder) {
    spawns_from_elsewhere.store(true, std::memory_order_relaxed);
    return CHAINIO_NEXT(posix_spawn_file_actions_addfchdir_np)(actions, folder);
}
// The first argument is where the child's number goes, or its descriptor.
#define CHAINIO_SPAWN(name, note)                                                                         \
    CHAINIO_CALL(int, name, int* child, const char* program, const posix_spawn_file_actions_t* actions,   \
                 const posix_spawnattr_t* attributes, char* const* arguments, char* const* environment) { \
        const bool complains = note(program, actions);                                                    \
        CHAINIO_ENVIRONMENT_FOR_NEXT(environment, complains);                                             \
        return CHAINIO_NEXT(name)(child, program, actions, attributes, arguments, environment);           \
    }
CHAINIO_SPAWN(posix_spawn, note_spawned)
CHAINIO_SPAWN(posix_spawnp, note_searched)
CHAINIO_SPAWN(pidfd_spawn, note_spawned)
CHAINIO_SPAWN(pidfd_spawnp, note_searched)

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
[[gnu::noinline]] static int look_for_filter(void*) {
    static constexpr char kKey[] = "\nSeccomp:\t";
    const long fd = raw_call(SYS_openat, AT_FDCWD, word("/proc/thread-self/status"), O_RDONLY | O_CLOEXEC);
    if (failed(fd)) return static_cast<int>(fd == -ENOENT ? Filter::untold : Filter::unknown);
    unsigned matched = 0;
    char text[1024], value = '0';
    long got = 1;
    while (got > 0 && value == '0') {
        got = raw_call(SYS_read, fd, word(text), sizeof text);
        for (long i = 0; i < got; ++i) {
            const bool whole = kKey[matched] == 0;
            if (whole) value = text[i];
            matched = !whole && text[i] == kKey[matched] ? matched + 1 : text[i] == kKey[0] ? 1 : 0;
        }
    }
    raw_call(SYS_close, fd);
    if (failed(got)) return static_cast<int>(Filter::unknown);
    return static_cast<int>(value == '0' ? Filter::none : Filter::some);
}

static constinit std::atomic<Filter> known_filter{Filter::unknown};

void learn_filter() {
    const int answer = ask_apart(look_for_filter, nullptr);
    if (answer >= 0) known_filter.store(static_cast<Filter>(answer), std::memory_order_relaxed);
}

Filter filter_of_process() {
    if (known_filter.load(std::memory_order_relaxed) == Filter::unknown && is_alone()) learn_filter();
    return known_filter.load(std::memory_order_relaxed);
}

bool filters(unsigned long mode, unsigned long filter) {
    return mode == SECCOMP_MODE_STRICT || (mode == SECCOMP_MODE_FILTER && filter != 0);
}

bool restricts(int option, unsigned long a, unsigned long b) {
    if (option == kSetUserDispatch) return a != 0;
    return option == PR_SET_SECCOMP && filters(a, b);
}

CHAINIO_CALL(int, prctl, int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d) {
    if (restricts(option, a, b)) enters_sandbox();
    return CHAINIO_NEXT(prctl)(option, a, b, c, d);
}

}  // namespace chainio::shim
