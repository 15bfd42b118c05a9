// The server's process, beside the one that has started the program. A file system that does not answer keeps whoever
// has asked it something, some of them even from being killed. The server asks file systems, so that it is not the one
// that has to end as the program does.
#pragma once
#include <atomic>
#include <cstdint>
#include <expected>
#include <functional>
#include <string>

#include "tools/chainio/run/child.h"
#include "tools/chainio/run/files.h"

namespace chainio::run {

enum class Said : char { nothing = 0, ready = 'r', failed = 'f', summary = 's' };
enum class Silence : std::uint8_t { late, ended };
struct Saying {
    Said what;
    std::string text;
};

class Beside {
    struct Shared;  // memory of both

  public:
    // What the server's process has of it.
    class Link {
      public:
        bool program_is_over() const;
        // Both once it is.
        Ended how() const;
        double seconds() const;
        void say(Said what, const std::string& text = {}) const;

      private:
        friend class Beside;
        Shared* shared_ = nullptr;
        int fd_ = -1;
    };

    // `work` is done in the new process, in which no signal is handled, and which ends after it, or with this process.
    // The error is an errno.
    static std::expected<Beside, int> start(const std::function<void(const Link&)>& work);
    Beside(Beside&& other) noexcept;
    Beside& operator=(Beside&&) = delete;
    Beside(const Beside&) = delete;
    Beside& operator=(const Beside&) = delete;
    // One that has not said its summary is killed. Waits a moment for its end, and no longer. What it has written on
    // its standard error comes out.
    ~Beside();

    int pid() const { return pid_; }
    // Can be read once it has said something, or has ended.
    int descriptor() const { return said_.get(); }
    // What it says next. A negative number is for ever.
    std::expected<Saying, Silence> hear(int milliseconds);
    // Of one that has ended: how, in words.
    std::string ending() const;
    // Tells it. It may sleep by the word, a futex.
    void program_is_over(const Ended& how, double seconds, std::atomic<std::uint32_t>& asleep) const;

  private:
    Beside() = default;
    Shared* shared_ = nullptr;
    int pid_ = -1;
    bool has_said_all_ = false;
    Descriptor process_, said_, words_;
};

}  // namespace chainio::run
