// Why a server was given up, of children that are what it may be.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/chainio/run/stuck.h"

namespace chainio::run {
namespace {

class Child {
  public:
    explicit Child(void (*does)()) : pid_(fork()) {
        if (pid_ != 0) return;
        does();
        _exit(0);
    }
    ~Child() {
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
    }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;
    // As soon as it is.
    std::string until(const std::string& wanted) const {
        std::string said;
        for (int i = 0; i < 30'000 && said != wanted; i++, usleep(1000)) said = given_up(pid_, 5000);
        return said;
    }

  private:
    pid_t pid_;
};

TEST(GivenUp, AServerThatIsAtWork) {
    const Child child([] {
        while (true) asm volatile("");
    });
    const std::string wanted =
        "the server was given up 5 s after the program's end: it was at work still, as on a busy machine; what else it "
        "had to say is lost";
    EXPECT_EQ(child.until(wanted), wanted);
}

TEST(GivenUp, AServerThatASignalHasStopped) {
    const Child child([] { raise(SIGSTOP); });
    const std::string wanted =
        "the server was given up 5 s after the program's end: a signal has stopped it (SIGSTOP); what else it had to "
        "say is lost";
    EXPECT_EQ(child.until(wanted), wanted);
}

TEST(GivenUp, ACallThatDoesNotReturn) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    static int from;
    from = ends[0];
    const Child child([] {
        char byte = 0;
        (void)!read(from, &byte, 1);
    });
    const std::string wanted =
        "1 call was given up, which had not returned 5 s after the program's end: read; what else the server had to "
        "say is lost";
    EXPECT_EQ(child.until(wanted), wanted);
    for (const int end : ends) close(end);
}

}  // namespace
}  // namespace chainio::run
