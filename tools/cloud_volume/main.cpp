// cloud-volume MOUNTPOINT SOURCE: mounts the folder SOURCE at MOUNTPOINT with the reads of a volume in a cloud.
#define FUSE_USE_VERSION 312
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tools/chainio/words.h"
#include "tools/cloud_volume/volume.h"

namespace chainio::cloud {
namespace {

constexpr std::size_t kProbes = 256;
constexpr std::int64_t kMostOverhead = 200'000;
constexpr unsigned kReceivers = 2;

// How much longer than the delay a read takes that a program makes: the median, since on a busy machine some wait much
// longer.
std::optional<std::int64_t> measure_overhead(const std::string& mountpoint, std::int64_t delay_ns) {
    const int fd = ::open((mountpoint + "/" + kProbe).c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
    const std::unique_ptr<void, decltype(&std::free)> block(std::aligned_alloc(4096, 4096), &std::free);
    std::vector<std::int64_t> took;
    for (std::size_t i = 0; i < kProbes; ++i) {
        const std::int64_t begin = now_ns();
        if (::pread(fd, block.get(), 4096, static_cast<off_t>(i % 16) * 4096) != 4096) break;
        took.push_back(now_ns() - begin);
    }
    ::close(fd);
    if (took.size() != kProbes) return std::nullopt;
    // The first half teaches the timer how late it wakes.
    std::sort(took.begin() + kProbes / 2, took.end());
    return std::min(took[kProbes * 3 / 4] - delay_ns, kMostOverhead);
}

struct Options {
    std::string mountpoint, source;
    PaceOptions pace;
    bool with_parent = false;
};

// A child beside the volume; what it measures comes through the descriptor that this gives, or -1. Of a process that
// reads its own mount neither SIGTERM nor SIGKILL would be the end while a read waits for it. Nor does the child end
// before the volume: fusermount3 looks whether the mount is dead as soon as our end of its socket is closed, which the
// kernel may do before it closes `device`.
int measure_beside(const Options& options, int device) {
    int ends[2] = {-1, -1};
    const auto ourselves = static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0));
    if (ourselves < 0 || ::pipe2(ends, O_CLOEXEC) != 0) return -1;
    const pid_t made = ::fork();
    if (made != 0) {
        ::close(ourselves);
        ::close(ends[1]);
        return made > 0 ? ends[0] : -1;
    }
    ::setsid();
    sigset_t all;
    sigfillset(&all);
    ::sigprocmask(SIG_BLOCK, &all, nullptr);
    for (const int fd : {0, 1, 2, device, ends[0]}) ::close(fd);
    if (const auto overhead = measure_overhead(options.mountpoint, options.pace.delay_ns)) {
        [[maybe_unused]] const ssize_t told = ::write(ends[1], &*overhead, sizeof *overhead);
    }
    ::close(ends[1]);
    pollfd gone = {.fd = ourselves, .events = POLLIN, .revents = 0};
    ::poll(&gone, 1, -1);
    // Not even then does fusermount3 take it away where other mounts come and go at that moment, so we do if we may.
    if (::open(options.mountpoint.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC) < 0 && errno == ENOTCONN)
        ::umount2(options.mountpoint.c_str(), MNT_DETACH);
    ::_exit(0);
}

int serve(const Options& options, fuse_session* session, Volume& volume) {
    const int measured = measure_beside(options, fuse_session_fd(session));
    if (measured < 0) return std::perror("cloud-volume: a process beside it"), 1;
    std::thread calibration([&] {
        std::int64_t overhead = 0;
        if (::read(measured, &overhead, sizeof overhead) != sizeof overhead) return;  // it was ended before
        pace_of(volume).set_overhead(overhead);
        std::printf("mounted; %lld ns of the delay are spent on the way\n", static_cast<long long>(overhead));
        std::fflush(stdout);
    });
    fuse_loop_config* config = fuse_loop_cfg_create();
    fuse_loop_cfg_set_max_threads(config, kReceivers);
    const int result = fuse_session_loop_mt(session, config);
    fuse_loop_cfg_destroy(config);
    fuse_session_unmount(session);  // a read that is still measured ends by it
    calibration.join();
    ::close(measured);
    return result < 0 ? 1 : 0;
}

// What a mount would hide for as long as it lasts.
std::string no_empty_folder(const std::string& path) {
    std::error_code error;
    const bool empty = std::filesystem::is_directory(path, error) && std::filesystem::is_empty(path, error);
    if (error) return "'" + path + "': " + error.message() + "; make an empty folder for the volume";
    return empty ? std::string() : "'" + path + "' is no empty folder; make one for the volume";
}

int run(const Options& options) {
    // fusermount3 stays beside a mount of auto_unmount and takes it away whatever ends this process.
    const char* words[] = {"cloud-volume", "-oauto_unmount", "-ofsname=cloud-volume", "-oallow_other", nullptr};
    fuse_args arguments = FUSE_ARGS_INIT(4, const_cast<char**>(words));
    Volume* volume = make_volume(options.source, options.pace);
    fuse_session* session = fuse_session_new(&arguments, &operations(), sizeof(fuse_lowlevel_ops), volume);
    int result = 1;
    if (session && fuse_set_signal_handlers(session) == 0 &&
        fuse_session_mount(session, options.mountpoint.c_str()) == 0) {
        result = serve(options, session, *volume);
    } else {
        std::fprintf(stderr,
                     "cloud-volume: %s cannot be mounted: see the line above; /dev/fuse and fusermount3 (package "
                     "fuse3) are needed\n",
                     options.mountpoint.c_str());
    }
    end_volume(volume);
    if (session) {
        fuse_remove_signal_handlers(session);
        fuse_session_destroy(session);
    }
    fuse_opt_free_args(&arguments);
    return result;
}

}  // namespace
}  // namespace chainio::cloud

int main(int argc, char** argv) {
    const pid_t parent = ::getppid();
    CLI::App app("Mounts a folder with reads as slow as those of a volume in a cloud; ends with SIGTERM or SIGINT");
    chainio::cloud::Options options;
    std::int64_t delay_us = 500;
    app.add_option("mountpoint", options.mountpoint, "an empty folder")
        ->required()
        ->check(CLI::Validator(chainio::cloud::no_empty_folder, ""));
    app.add_option("source", options.source, "the folder that is shown there")->required();
    app.add_option("--delay-us", delay_us, "what each read takes")->check(CLI::Range(1, 1'000'000));
    app.add_option("--reads-per-second", options.pace.reads_per_second, "as many as there may be")
        ->check(CLI::Range(1, 1'000'000));
    app.add_flag("--with-parent", options.with_parent, "end when the process that started this one ends");
    app.name("tools/cloud-volume");
    app.footer("tools/cloud-volume --fio: mounts one for a moment and prints what fio reads from it, and locally");
    try {
        app.parse(chainio::tool::for_parser(app, argc, argv));
    } catch (const CLI::ParseError& error) {
        if (error.get_exit_code() == 0) return app.exit(error);
        std::fprintf(stderr, "cloud-volume: %s\n  hint: `tools/cloud-volume --help` lists the options\n", error.what());
        return 2;
    }
    options.pace.delay_ns = delay_us * 1000;
    if (options.with_parent) {
        ::prctl(PR_SET_PDEATHSIG, SIGTERM);
        // Of a parent that has ended before, the kernel tells nothing.
        if (::getppid() != parent) return 1;
    }
    try {
        return chainio::cloud::run(options);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "cloud-volume: %s\n", error.what());
        return 1;
    }
}
