// By datagrams over loopback: each turn sends what was asked with one sendmmsg, and takes what is there with one
// recvmmsg.
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "runtime/ipc/own_fd.h"
#include "tests/bench/rings/protocol.h"
#include "tests/bench/rings/wire.h"

namespace chainio::bench_rings {
namespace {

// As many messages as there are requests on their way, each with room for one.
class Messages {
  public:
    Messages(unsigned count, std::size_t room) : room_(room), bytes_(count * room), parts_(count), heads_(count) {
        for (unsigned i = 0; i < count; i++) {
            parts_[i] = {bytes_.data() + i * room, room};
            heads_[i].msg_hdr.msg_iov = &parts_[i];
            heads_[i].msg_hdr.msg_iovlen = 1;
        }
    }
    mmsghdr* heads() { return heads_.data(); }
    unsigned size() const { return static_cast<unsigned>(heads_.size()); }
    void put(unsigned at, std::span<const char> bytes) {
        std::memcpy(parts_[at].iov_base, bytes.data(), bytes.size());
        parts_[at].iov_len = bytes.size();
    }
    std::span<const char> got(unsigned at) const { return {bytes_.data() + at * room_, heads_[at].msg_len}; }

  private:
    std::size_t room_;
    std::vector<char> bytes_;
    std::vector<iovec> parts_;
    std::vector<mmsghdr> heads_;
};

class Datagrams final : public Wire {
  public:
    Datagrams(ipc::OwnFd fd, const Load& load)
        : fd_(std::move(fd)),
          spin_us_(load.spin_us),
          out_(load.outstanding, kMostRequest),
          in_(load.outstanding, kMostReply) {}

    bool ask(std::uint32_t, std::span<const char> request, std::size_t) override {
        if (asked_ == out_.size()) return false;
        out_.put(asked_++, request);
        return true;
    }

    Came turn(const Take& take) override {
        for (unsigned sent = 0; sent < asked_;) {
            const int done = sendmmsg(fd_.get(), out_.heads() + sent, asked_ - sent, 0);
            if (done <= 0) return Came::end;
            sent += static_cast<unsigned>(done);
        }
        asked_ = 0;
        int count = -1;
        const bool came = spin_us_ != 0 && looked(spin_us_, [&] { return (count = receive(MSG_DONTWAIT)) != 0; });
        if (!came) count = receive(MSG_WAITFORONE);
        for (int i = 0; i < count; i++) take(kUnknown, in_.got(static_cast<unsigned>(i)));
        return count < 0 ? Came::end : count == 0 ? Came::nothing : Came::replies;
    }

    bool loses() const override { return true; }

  private:
    // 0: there is none; below: there never will be.
    int receive(int flags) {
        const int count = recvmmsg(fd_.get(), in_.heads(), in_.size(), flags, nullptr);
        return count < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : count;
    }

    ipc::OwnFd fd_;
    unsigned spin_us_;
    Messages out_, in_;
    unsigned asked_ = 0;
};

}  // namespace

std::unique_ptr<Wire> open_datagrams(const Load& load) {
    ipc::OwnFd fd = connected_socket(load, SOCK_DGRAM);
    if (!fd) return nullptr;
    return std::make_unique<Datagrams>(std::move(fd), load);
}

}  // namespace chainio::bench_rings
