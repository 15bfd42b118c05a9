#include "tools/chainio/run/beside.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <utility>

#include "tools/chainio/run/signals.h"

namespace chainio::run {

struct Beside::Shared {
    std::atomic<bool> over;  // what follows is there
    Ended how;
    double seconds;
};

namespace {

constexpr int kLastMoment = 1000;  // milliseconds that it has to end in
constexpr std::size_t kMostWords = 65'536;

struct Pipe {
    Descriptor read, write;
};

std::expected<Pipe, int> make_pipe(int flags) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC | flags) != 0) return std::unexpected(errno);
    return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

using Clock = std::chrono::steady_clock;

// Whether it can be read before that, or has ended.
bool readable(int fd, std::optional<Clock::time_point> until) {
    pollfd asked{fd, POLLIN, 0};
    while (true) {
        int rest = -1;
        if (until) {
            const auto left = std::chrono::ceil<std::chrono::milliseconds>(*until - Clock::now()).count();
            rest = left > 0 ? static_cast<int>(left) : 0;
        }
        const int found = ::poll(&asked, 1, rest);
        if (found >= 0 || errno != EINTR) return found > 0;
    }
}

std::optional<Clock::time_point> end_of(int milliseconds) {
    if (milliseconds < 0) return std::nullopt;
    return Clock::now() + std::chrono::milliseconds(milliseconds);
}

std::expected<void, Silence> read_all(int fd, char* into, std::size_t bytes, std::optional<Clock::time_point> until) {
    while (bytes > 0) {
        if (!readable(fd, until)) return std::unexpected(Silence::late);
        const ssize_t got = ::read(fd, into, bytes);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return std::unexpected(Silence::ended);
        into += got;
        bytes -= static_cast<std::size_t>(got);
    }
    return {};
}

// The program keeps the limit that it was given: what this process has open is bounded otherwise.
void open_as_many_as_may_be() {
    rlimit files{};
    if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return;
    files.rlim_cur = files.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &files);
}

// Signals that come to the whole process group are the program's. Standard error is a pipe: who reads the caller's to
// its end is not to wait for a process that cannot end.
void begin(pid_t parent, int words) {
    block_signals(kAllSignals);
    ::prctl(PR_SET_NAME, "chainio-server");
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(0);
    ::dup2(words, 2);
    open_as_many_as_may_be();
}

}  // namespace

bool Beside::Link::program_is_over() const { return shared_->over.load(); }
Ended Beside::Link::how() const { return shared_->how; }
double Beside::Link::seconds() const { return shared_->seconds; }

void Beside::Link::say(Said what, const std::string& text) const {
    std::string message(1 + sizeof(std::uint64_t), static_cast<char>(what));
    const std::uint64_t length = text.size();
    std::memcpy(message.data() + 1, &length, sizeof length);
    (void)write_whole(fd_, message + text);
}

std::expected<Beside, int> Beside::start(const std::function<void(const Link&)>& work) {
    auto said = make_pipe(0);
    auto words = make_pipe(O_NONBLOCK);
    if (!said || !words) return std::unexpected(said ? words.error() : said.error());
    void* const memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return std::unexpected(errno);
    Beside made;
    made.shared_ = new (memory) Shared{};
    const pid_t parent = ::getpid();
    // Without a signal at its end it is a child that nobody finds who waits for any: the program's processes are those.
    made.pid_ = static_cast<int>(::syscall(SYS_clone, 0L, nullptr, nullptr, nullptr, nullptr));
    if (made.pid_ < 0) return std::unexpected(errno);
    if (made.pid_ == 0) {
        Link link;
        link.shared_ = made.shared_;
        link.fd_ = said->write.get();
        begin(parent, words->write.get());
        // A limit of open files is to leave room for those of the program.
        for (Descriptor* const end : {&said->read, &words->read, &words->write}) end->reset();
        work(link);
        ::_exit(0);  // what is left to close the kernel closes, and the folder is the other process's to remove
    }
    made.process_ = Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, made.pid_, 0)));  // Linux 5.3
    made.said_ = std::move(said->read);
    made.words_ = std::move(words->read);
    return made;
}

Beside::Beside(Beside&& other) noexcept
    : shared_(std::exchange(other.shared_, nullptr)),
      pid_(std::exchange(other.pid_, -1)),
      has_said_all_(other.has_said_all_),
      process_(std::move(other.process_)),
      said_(std::move(other.said_)),
      words_(std::move(other.words_)) {}

Beside::~Beside() {
    if (pid_ > 0) {
        if (!has_said_all_) ::kill(pid_, SIGKILL);
        if (!process_ || readable(process_.get(), end_of(kLastMoment))) ::waitpid(pid_, nullptr, __WCLONE);
    }
    std::string words(words_ ? kMostWords : 0, '\0');
    const ssize_t got = words_ ? ::read(words_.get(), words.data(), words.size()) : 0;
    if (got > 0) (void)write_unharmed(2, std::string_view(words).substr(0, static_cast<std::size_t>(got)));
    if (shared_ != nullptr) ::munmap(shared_, sizeof(Shared));
}

std::expected<Saying, Silence> Beside::hear(int milliseconds) {
    const auto until = end_of(milliseconds);
    const auto take = [&](char* into, std::size_t bytes) { return read_all(said_.get(), into, bytes, until); };
    Saying saying{};
    std::uint64_t length = 0;
    std::array<char, sizeof length> number{};
    if (auto read = take(reinterpret_cast<char*>(&saying.what), 1); !read) return std::unexpected(read.error());
    if (auto read = take(number.data(), number.size()); !read) return std::unexpected(read.error());
    std::memcpy(&length, number.data(), sizeof length);
    saying.text.resize(length);
    if (auto read = take(saying.text.data(), length); !read) return std::unexpected(read.error());
    has_said_all_ = saying.what == Said::summary;
    return saying;
}

std::string Beside::ending() const {
    siginfo_t info{};
    // Its descriptors are closed before it can be waited for.
    if (process_ && !readable(process_.get(), end_of(kLastMoment))) return "its process does not end";
    if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT | __WCLONE) != 0) return std::strerror(errno);
    if (info.si_code == CLD_EXITED) return fmt::format("its process ended with {}", info.si_status);
    return fmt::format("its process died of signal {} ({})", info.si_status, ::strsignal(info.si_status));
}

void Beside::program_is_over(const Ended& how, double seconds, std::atomic<std::uint32_t>& asleep) const {
    shared_->how = how;
    shared_->seconds = seconds;
    shared_->over.store(true);
    asleep.store(0);
    ::syscall(SYS_futex, &asleep, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

}  // namespace chainio::run
