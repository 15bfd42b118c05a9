// By a channel of shared memory, with runtime/ipc/client.h.
#include <array>
#include <cstdio>
#include <cstring>

#include "runtime/ipc/client.h"
#include "tests/bench/rings/protocol.h"
#include "tests/bench/rings/wire.h"

namespace chainio::bench_rings {
namespace {

class Ring final : public Wire {
  public:
    explicit Ring(ipc::Client client) : client_(std::move(client)) {}

    bool ask(std::uint32_t slot, std::span<const char> request, std::size_t) override {
        const auto number = client_.take();
        if (!number) return false;
        std::memcpy(client_.frame(*number), request.data(), request.size());
        return client_.submit(*number, request.size(), slot).has_value();
    }

    Came turn(const Take& take) override {
        const auto count = client_.reap(answers_, kPatienceMs);
        if (!count) {
            std::fprintf(stderr, "bench_rings: %s\n", count.error().why);
            return Came::end;
        }
        for (unsigned i = 0; i < *count; i++) {
            const ipc::Answered& answer = answers_[i];
            // The reply is looked at before its frame is given back: the next request is written into that one.
            const Give give{client_, answer.number};
            take(static_cast<std::uint32_t>(answer.user_data),
                 {reinterpret_cast<const char*>(answer.bytes.data()), answer.bytes.size()});
        }
        return *count == 0 ? Came::nothing : Came::replies;
    }

  private:
    struct Give {
        ipc::Client& client;
        std::uint32_t number;
        Give(ipc::Client& of, std::uint32_t which) : client(of), number(which) {}
        ~Give() { static_cast<void>(client.release(number)); }
        Give(const Give&) = delete;
        Give& operator=(const Give&) = delete;
    };
    ipc::Client client_;
    std::array<ipc::Answered, 64> answers_;
};

}  // namespace

std::unique_ptr<Wire> open_ring(const Load& load) {
    // The take asks while it holds its own frame.
    const ipc::ClientOptions options{.shape = {.frames = load.outstanding + 1, .frame_bytes = kMostReply},
                                     .spin_us = load.spin_us};
    auto client = ipc::Client::open(load.path, load.asks, options);
    if (!client) {
        std::fprintf(stderr, "bench_rings: %s\n", client.error().why.c_str());
        return nullptr;
    }
    return std::make_unique<Ring>(std::move(*client));
}

}  // namespace chainio::bench_rings
