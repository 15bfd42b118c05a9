// cloud-volume MOUNTPOINT SOURCE: mounts the folder SOURCE at MOUNTPOINT with the reads of a volume in a cloud.
#define FUSE_USE_VERSION 312
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tools/cloud_volume/volume.h"

namespace chainio::cloud {
namespace {

constexpr std::size_t kProbes = 256;
constexpr std::int64_t kMostOverhead = 200'000;
constexpr unsigned kReceivers = 2;

// How much longer than the delay a read takes that a program makes: the median, since on a busy machine some wait much
// longer.
std::int64_t measure_overhead(const std::string& mountpoint, std::int64_t delay_ns) {
    const int fd = ::open((mountpoint + "/" + kProbe).c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
    const std::unique_ptr<void, decltype(&std::free)> block(std::aligned_alloc(4096, 4096), &std::free);
    std::vector<std::int64_t> took;
    for (std::size_t i = 0; i < kProbes; ++i) {
        const std::int64_t begin = now_ns();
        if (::pread(fd, block.get(), 4096, static_cast<off_t>(i % 16) * 4096) != 4096) break;
        took.push_back(now_ns() - begin);
    }
    ::close(fd);
    if (took.size() != kProbes) return 0;
    // The first half teaches the timer how late it wakes.
    std::sort(took.begin() + kProbes / 2, took.end());
    return std::min(took[kProbes * 3 / 4] - delay_ns, kMostOverhead);
}

struct Options {
    std::string mountpoint, source;
    PaceOptions pace;
    bool with_parent = false;
};

int serve(const Options& options, fuse_session* session, Volume& volume) {
    std::thread calibration([&] {
        const std::int64_t overhead = measure_overhead(options.mountpoint, options.pace.delay_ns);
        pace_of(volume).set_overhead(overhead);
        std::printf("mounted; %lld ns of the delay are spent on the way\n", static_cast<long long>(overhead));
        std::fflush(stdout);
    });
    fuse_loop_config* config = fuse_loop_cfg_create();
    fuse_loop_cfg_set_max_threads(config, kReceivers);
    const int result = fuse_session_loop_mt(session, config);
    fuse_loop_cfg_destroy(config);
    calibration.join();
    return result < 0 ? 1 : 0;
}

// As soon as our end of its socket is closed, fusermount3 looks whether the mount is dead; of a process that is killed
// the kernel may close that end before `device`, and then the mount would be left. A child keeps it open until we are
// gone.
void stay_connected(int device) {
    const auto ourselves = static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0));
    if (ourselves < 0 || ::fork() != 0) {
        ::close(ourselves);
        return;
    }
    ::setsid();
    sigset_t all;
    sigfillset(&all);
    ::sigprocmask(SIG_BLOCK, &all, nullptr);
    for (const int fd : {0, 1, 2, device}) ::close(fd);
    pollfd gone = {.fd = ourselves, .events = POLLIN, .revents = 0};
    ::poll(&gone, 1, -1);
    ::_exit(0);
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
        stay_connected(fuse_session_fd(session));
        result = serve(options, session, *volume);
        fuse_session_unmount(session);
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
    CLI::App app("Mounts a folder with reads as slow as those of a volume in a cloud; ends with SIGTERM or SIGINT");
    chainio::cloud::Options options;
    std::int64_t delay_us = 500;
    app.add_option("mountpoint", options.mountpoint, "an empty folder")->required();
    app.add_option("source", options.source, "the folder that is shown there")->required();
    app.add_option("--delay-us", delay_us, "what each read takes")->check(CLI::Range(1, 1'000'000));
    app.add_option("--reads-per-second", options.pace.reads_per_second, "as many as there may be")
        ->check(CLI::Range(1, 1'000'000));
    app.add_flag("--with-parent", options.with_parent, "end when the process that started this one ends");
    CLI11_PARSE(app, argc, argv);
    options.pace.delay_ns = delay_us * 1000;
    if (options.with_parent) ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    try {
        return chainio::cloud::run(options);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "cloud-volume: %s\n", error.what());
        return 1;
    }
}
