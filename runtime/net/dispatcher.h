// libxdp's dispatcher: one XDP program of an interface that calls those of several owners, one after the other. The
// kernel keeps it, and what it calls, until somebody takes it out.
#pragma once
#include <bpf/libbpf.h>

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <utility>

#include "runtime/net/interface.h"

struct xdp_program;

namespace chainio::net {

// The right to have our program in an interface's dispatcher. One process of a network namespace has it at a time, and
// loses it with its end, so that what a killed one has left there can be told from what works.
class Claim {
  public:
    static std::optional<Claim> take(const Interface& interface);
    Claim(Claim&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Claim& operator=(Claim&& other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~Claim();

  private:
    explicit Claim(int fd) : fd_(fd) {}
    int fd_;
};

// What a dispatcher calls.
struct Dispatched {
    std::string names;  // of others' programs, for people
    std::uint32_t ours = 0;
    bool native = false;
};
// Nothing where the interface has none, or none whose programs are to be seen from here.
std::optional<Dispatched> dispatched(const Interface& interface);

// Takes our programs out, that a process which is gone has left there.
void take_out(const Interface& interface, const Claim& claim);

// Our program's place in a dispatcher, which it leaves with this object.
class Place {
  public:
    // Loads the object, opened before, and has the dispatcher call a program of it, behind those of the usual priority.
    // The error is a number of errno.h; EOPNOTSUPP: the kernel, or this process' file systems, cannot have a
    // dispatcher.
    static std::expected<Place, int> take(bpf_object* object, const char* program, const Interface& interface,
                                          bool native);
    Place(Place&& other) noexcept
        : program_(std::exchange(other.program_, nullptr)), index_(other.index_), native_(other.native_) {}
    Place& operator=(Place&&) = delete;
    ~Place();

  private:
    Place(xdp_program* program, unsigned index, bool native) : program_(program), index_(index), native_(native) {}
    xdp_program* program_;
    unsigned index_;
    bool native_;
};

}  // namespace chainio::net
