// Processes that hold rings whose operations nobody sees, io_urings and contexts of kernel AIO, however they were set
// up: by a call that was told of, or past libc, which only /proc shows.
#pragma once
#include <cstdint>
#include <map>
#include <optional>

namespace chainio::shadow {

class ProcessRings {
  public:
    enum Kind : unsigned { uring = 1, aio = 2 };
    // The kinds of those that the process has mapped now, as bits; nothing where /proc does not say.
    static std::optional<unsigned> held_by(std::uint32_t process);

    // Looks at the process now, and from now on at ticks.
    void watch(std::uint32_t process);
    // The process said itself that it has set one up.
    void told(std::uint32_t process, Kind kind);
    // A while has passed: looks again, the more rarely the longer a process is known, at a few at most, and forgets
    // those that have ended.
    void tick();
    void look_at_all();
    // How many processes have been found to hold one.
    std::uint64_t holders(Kind kind) const { return kind == uring ? urings_ : aios_; }

  private:
    struct Watched {
        unsigned found = 0, ticks = 0;
        bool due = false;
    };
    void look_at(std::uint32_t process, Watched& watched);
    void found(Watched& watched, unsigned kinds);

    std::map<std::uint32_t, Watched> watched_;
    std::uint32_t last_ = 0;  // the process that was looked at last
    std::uint64_t urings_ = 0, aios_ = 0;
};

}  // namespace chainio::shadow
