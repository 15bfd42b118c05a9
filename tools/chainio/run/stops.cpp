#include "tools/chainio/run/stops.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstring>
#include <string_view>

namespace chainio::run {
namespace {

// As /proc says it, or 0. Between fork and exec nothing may allocate.
char state_of(int process) {
    std::array<char, 32> path{};
    std::array<char, 512> line{};
    std::memcpy(path.data(), "/proc/", 6);
    char* const end = std::to_chars(path.data() + 6, path.data() + 20, process).ptr;
    std::memcpy(end, "/stat", 6);
    const int fd = ::open(path.data(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    const ssize_t got = ::read(fd, line.data(), line.size());
    ::close(fd);
    const std::string_view text(line.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
    const std::size_t name_end = text.rfind(')');
    return name_end != text.npos && name_end + 2 < text.size() ? text[name_end + 2] : '\0';
}

[[noreturn]] void watch(int program, int stopped) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::setpgid(0, 0);  // what stops or continues the job is not for this one
    if (::getppid() != stopped) ::_exit(0);
    constexpr timespec kBetweenLooks{0, 50'000'000};
    for (;; ::nanosleep(&kBetweenLooks, nullptr))
        if (!is_stopped(program) && is_stopped(stopped)) ::kill(stopped, SIGCONT);
}

}  // namespace

bool is_stopped(int process) { return state_of(process) == 'T'; }

Watcher::Watcher(int program) {
    if (state_of(program) == 0) return;
    const int self = ::getpid();
    pid_ = ::fork();
    if (pid_ == 0) watch(program, self);
}

Watcher::~Watcher() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
}

}  // namespace chainio::run
