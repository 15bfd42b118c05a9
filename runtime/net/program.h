// The XDP program that takes declared UDP traffic off one interface, attached as long as this object lives: the kernel
// detaches it when the process ends, however it ends, unless it shares the interface with others.
#pragma once
#include <cstdint>
#include <expected>
#include <memory>
#include <span>
#include <string>

#include "runtime/net/interface.h"
#include "runtime/net/replies.h"

namespace chainio::net {

enum class Attach { automatic, native, generic };

// Why traffic cannot be taken off an interface. A caller that has another way (a UDP socket) takes that.
struct Refusal {
    enum class Why { no_interface, foreign_program, not_permitted, unsupported, busy, system } why;
    std::string message;
    bool shortage = false;  // of descriptors, or of time without a signal, for the moment: to be tried again
};

struct ProgramCounters {
    std::uint64_t taken = 0, passed = 0;
};

// That of more ports or addresses than a program takes.
Refusal too_many();

class Program {
  public:
    // Never replaces a program that is there: joins those of libxdp's dispatcher, and is refused beside any other. With
    // `share`, others may come later, by libxdp as well. It takes nothing before take(). Memory for the replies to be
    // kept is taken here.
    static std::expected<Program, Refusal> attach(const Interface& interface, Attach how, bool share,
                                                  ReplyTable replies);
    Program(Program&&) noexcept;
    Program& operator=(Program&&) noexcept;
    ~Program();

    int sockets_map() const;
    // From here on datagrams to these ports and addresses are taken, but none from them or from `others`; in frames
    // longer than that they are left to the kernel.
    std::expected<void, Refusal> take(std::span<const std::uint16_t> ports, std::span<const Address> addresses,
                                      std::span<const Address> others, std::uint32_t longest_frame);
    bool native() const;
    bool shared() const;
    // Why it is not, where that was wanted.
    const std::string& alone() const;
    ProgramCounters counters() const;

    ReplyTable& replies();
    // What the program goes by when it sends long replies, and the seed of their places.
    std::span<cio_path> paths() const;
    std::uint64_t seed() const;
    KeptCounters kept(std::size_t service) const;
    // How kept replies leave from here on.
    void answer(cio_xdp_answering how);

  private:
    struct State;
    explicit Program(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

}  // namespace chainio::net
