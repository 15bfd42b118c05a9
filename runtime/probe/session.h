// The probes of one run: attached here, read through the poller. Everything in the kernel hangs on descriptors of this
// process, which no program inherits; when it ends, however it ends, nothing stays attached.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compiler/ir/ir.h"
#include "runtime/probe/poller.h"

namespace chainio::probe {

struct AttachedSite {
    std::uint16_t probe = 0;
    std::string where;  // "/lib/libfoo.so.1+0x1234", "system call openat"
    std::string cost;   // in words
    bool slow = false;  // worth a line even when nobody asked
};
struct RefusedProbe {
    std::uint16_t probe = 0;
    std::string why;  // with the remedy
};
struct Counts {
    std::uint64_t taken = 0, lost = 0, unreadable = 0;
};

class Session : public Poller {
  public:
    // Attaches the probes that chains of the module listen to, to the program's files, for the processes that this one
    // will start and theirs. `artifact` is the file that the module is from. What cannot be attached is among
    // refused(), with the reason. Call before there are other threads, then drop_privileges(), then start the program.
    static std::unique_ptr<Session> attach(std::span<const std::uint8_t> artifact, const ir::Module& module,
                                           const std::string& program);

    virtual const std::vector<AttachedSite>& attached() const = 0;
    virtual const std::vector<RefusedProbe>& refused() const = 0;
    virtual Counts counts(std::uint16_t probe) const = 0;
    virtual std::uint64_t untracked() const = 0;  // processes of the run whose probes are not seen: the tree was full
    // Whether this process counts as the run, and what it starts from now on; it does once attached. Who serves the
    // programs does not: to hear of its own work would make it work on. Takes no privilege.
    virtual void count_this_process(bool counts) = 0;
};

}  // namespace chainio::probe
