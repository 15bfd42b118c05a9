#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/time.h>

#include <cerrno>
#include <csignal>
#include <fstream>

#include "tests/unit/rings/ring_handle.h"

namespace chainio::tests {
namespace {

struct Opened {
    int result;
    std::string error;
};

Opened opened(const std::string& path, const chainio_ring_options* options = nullptr, const char* service = "store") {
    auto* ring = reinterpret_cast<chainio_ring*>(1);
    const int result = chainio_ring_open(path.c_str(), service, options, &ring);
    EXPECT_EQ(ring == nullptr, result != 0);
    if (result != 0) return {result, chainio_ring_error(nullptr)};
    const std::string shape =
        std::to_string(chainio_ring_longest(ring)) + " " + std::to_string(chainio_ring_in_flight(ring));
    chainio_ring_close(ring);
    return {0, shape};
}

void expect(const Opened& opened, int error, const std::string& text) {
    EXPECT_EQ(opened.result, -error) << opened.error;
    EXPECT_EQ(opened.error, text);
}

TEST(Opening, TellsTheServerWhatIsWanted) {
    ipc::Hello heard;
    const RingServer server(echo, [&](int, const ipc::Hello& hello) {
        heard = hello;
        return true;
    });
    expect(opened(server.path()), 0, "65536 0");
    EXPECT_EQ(heard.service, "store");
    EXPECT_EQ(heard.shape.frames, 64u);
    EXPECT_EQ(heard.shape.frame_bytes, 65536u);
    chainio_ring_options options{sizeof options, 1024, 131072, 1'000'000, 0};
    expect(opened(server.path(), &options, "other"), 0, "131072 0");
    EXPECT_EQ(heard.service, "other");
    EXPECT_EQ(heard.shape.frames, 1024u);
    options = {sizeof options, 1, 1, 0, 0};
    expect(opened(server.path(), &options), 0, "512 0");
    EXPECT_EQ(heard.shape.frames, 1u);
    options = {sizeof options, 0, 513, 0, 0};
    expect(opened(server.path(), &options), 0, "1024 0");
    // A program with an older header has a shorter struct, whose end nobody reads.
    options = {offsetof(chainio_ring_options, longest), 3, 1 << 30, 0, 0};
    expect(opened(server.path(), &options), 0, "65536 0");
    EXPECT_EQ(heard.shape.frames, 3u);
}

TEST(Opening, WhatCannotBeIsRefused) {
    const auto of = [](chainio_ring_options options) { return opened("/none", &options); };
    expect(of({sizeof(chainio_ring_options), 1025, 0, 0, 0}), EINVAL, "options->in_flight is at most 1024");
    expect(of({sizeof(chainio_ring_options), 0, 131073, 0, 0}), EINVAL, "options->longest is at most 131072 bytes");
    expect(of({sizeof(chainio_ring_options), 0, 0, 1'000'001, 0}), EINVAL, "options->spin_us is at most 1000000");
    expect(of({sizeof(chainio_ring_options), 0, 0, 0, 3'600'001}), EINVAL, "options->open_ms is at most 3600000");
    expect(of({0, 0, 0, 0, 0}), EINVAL, "options->size must be sizeof(struct chainio_ring_options)");
    expect(of({5000, 0, 0, 0, 0}), EINVAL, "options->size must be sizeof(struct chainio_ring_options)");
    chainio_ring* ring = nullptr;
    EXPECT_EQ(chainio_ring_open(nullptr, "x", nullptr, &ring), -EINVAL);
    EXPECT_STREQ(chainio_ring_error(nullptr), "path must not be NULL");
    EXPECT_EQ(chainio_ring_open("x", nullptr, nullptr, &ring), -EINVAL);
    EXPECT_STREQ(chainio_ring_error(nullptr), "service must not be NULL");
    EXPECT_EQ(chainio_ring_open("x", "x", nullptr, nullptr), -EINVAL);
    EXPECT_STREQ(chainio_ring_error(nullptr), "out must not be NULL");
    const RingServer server(echo);
    expect(opened(server.path(), nullptr, ""), EINVAL, "the name of a service has 1 to 255 bytes, not 0");
    expect(opened(server.path(), nullptr, std::string(256, 'x').c_str()), EINVAL,
           "the name of a service has 1 to 255 bytes, not 256");
}

TEST(Opening, SaysWhatIsWrongWithThePath) {
    const RingServer server(echo);
    const std::string folder = std::filesystem::path(server.path()).parent_path();
    const auto nobody = [&](const std::string& path, const std::string& why, const std::string& remedy) {
        return "nobody answers at '" + path + "': " + why + "; " + remedy;
    };
    const std::string which = "is it what chainio-runtime got as --rings, and does that run?";
    expect(opened(folder + "/none"), ENOENT, nobody(folder + "/none", "No such file or directory", which));
    expect(opened(server.path() + "/none"), ENOTDIR, nobody(server.path() + "/none", "Not a directory", which));
    std::ofstream(folder + "/file") << "x";
    expect(opened(folder + "/file"), ECONNREFUSED,
           nobody(folder + "/file", "Connection refused", "start chainio-runtime with --rings " + folder + "/file"));
    const std::string longer = folder + "/" + std::string(108, 'x');
    expect(opened(longer), ENAMETOOLONG,
           "'" + longer +
               "' is too long for the path of a socket, which has at most 107 bytes; give a shorter one, as from "
               "another folder");
    expect(opened(""), EINVAL, "the path of the socket is empty");
    const ipc::OwnFd stream(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    (folder + "/stream").copy(address.sun_path, sizeof address.sun_path - 1);
    ASSERT_EQ(bind(stream.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(listen(stream.get(), 1), 0);
    expect(opened(folder + "/stream"), EPROTOTYPE,
           "'" + folder + "/stream' is a socket of another kind; give what chainio-runtime got as --rings");
}

TEST(Opening, WhoMayNotIsToldSo) {
    const RingServer server(echo);
    ASSERT_EQ(chmod(server.path().c_str(), 0), 0);
    // Of this thread alone, whom the kernel takes for nobody as long as it is another user's.
    const int before = setfsuid(65534);
    const auto refused = opened(server.path());
    setfsuid(static_cast<uid_t>(before));
    expect(refused, EACCES,
           "this user may not ask at '" + server.path() +
               "': Permission denied; be the user that started chainio-runtime, or root, or have its --rings-mode let "
               "others in");
}

TEST(Opening, ARefusalOfTheServerSaysWhy) {
    const RingServer server(echo, [](int socket, const ipc::Hello& hello) {
        ipc::refuse(socket, "there is no service '" + hello.service + "'");
        return false;
    });
    expect(opened(server.path()), ECONNREFUSED, "'" + server.path() + "' refuses: there is no service 'store'");
}

TEST(Opening, WhoeverAnswersOtherwiseIsNoServerOfRings) {
    const RingServer closes(echo, [](int, const ipc::Hello&) { return false; });
    expect(opened(closes.path()), ECONNRESET,
           "'" + closes.path() +
               "' cannot be asked: the server has closed the connection: it is ending, or is another program's");
    const RingServer other(echo, [](int socket, const ipc::Hello&) {
        EXPECT_EQ(send(socket, "220 hello\r\n", 11, 0), 11);
        return false;
    });
    expect(opened(other.path()), EPROTO,
           "'" + other.path() + "' cannot be asked: what answers there is no server of ChainIO's rings");
    const RingServer smaller(echo, [](int socket, const ipc::Hello&) {
        const auto end = ipc::ServerEnd::create({1, 512});
        const ipc::OwnFd bell(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
        EXPECT_TRUE(ipc::welcome(socket, end->region().fd(), bell.get()));
        return false;
    });
    expect(opened(smaller.path()), EPROTO,
           "'" + smaller.path() + "' cannot be asked: the server has made a smaller channel than was asked for");
    const RingServer none(echo, [](int socket, const ipc::Hello&) {
        const auto region = umem::Region::create(65536, false);
        const ipc::OwnFd bell(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
        EXPECT_TRUE(ipc::welcome(socket, region->fd(), bell.get()));
        return false;
    });
    expect(opened(none.path()), EPROTO, "'" + none.path() + "' cannot be asked: the server's region holds no channel");
}

// A server that is stopped lets some in by the kernel, and never answers them; those behind them wait to be let in.
// Signals do not begin the time anew.
TEST(Opening, AServerThatDoesNotAnswerIsNotWaitedForWithoutEnd) {
    std::string folder = std::filesystem::temp_directory_path() / "chainio-ring-XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    const std::string path = folder + "/rings";
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    const ipc::OwnFd listening(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    ASSERT_EQ(bind(listening.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(listen(listening.get(), 0), 0);
    struct sigaction handled{}, before{};
    handled.sa_handler = [](int) {};
    sigaction(SIGALRM, &handled, &before);
    const itimerval often{{0, 5000}, {0, 5000}}, never{};
    setitimer(ITIMER_REAL, &often, nullptr);
    const chainio_ring_options options{sizeof options, 0, 0, 0, 20};
    expect(opened(path, &options), ETIMEDOUT,
           "'" + path + "' has not answered within 20 ms; is its chainio-runtime stopped?");
    expect(opened(path, &options), ETIMEDOUT,
           "'" + path + "' has let nobody in within 20 ms; is its chainio-runtime stopped?");
    setitimer(ITIMER_REAL, &never, nullptr);
    sigaction(SIGALRM, &before, nullptr);
    std::filesystem::remove_all(folder);
}

std::ptrdiff_t open_files() {
    const std::filesystem::directory_iterator listed("/proc/self/fd");
    return std::distance(begin(listed), end(listed));
}

// Those of the server are this process's as well, and closed once it has ended.
TEST(Opening, NoDescriptorStaysOpen) {
    const auto before = open_files();
    {
        bool lets_in = true;
        const RingServer server(echo, [&](int, const ipc::Hello&) { return std::exchange(lets_in, false); });
        const auto alone = open_files();
        {
            Ring ring(server);
            EXPECT_EQ(ring.call("x"), "[x]");
            EXPECT_GE(chainio_ring_fd(ring.ring), 0);
            EXPECT_GT(open_files(), alone);
        }
        EXPECT_EQ(opened(server.path()).result, -ECONNRESET);
    }
    EXPECT_EQ(open_files(), before);
}

}  // namespace
}  // namespace chainio::tests
