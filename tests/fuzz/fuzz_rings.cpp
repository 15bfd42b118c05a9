// Any bytes as what the other side of a channel writes, and as what is said when two meet: whatever is taken over lies
// within its frame, and the frame was the other side's to hand over. The first byte says which side is attacked.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <cstdlib>
#include <cstring>
#include <span>

#include "runtime/ipc/channel.h"
#include "runtime/ipc/meeting.h"

namespace {

using namespace chainio;

constexpr ipc::Shape kShape{.frames = 4, .frame_bytes = 1024};
constexpr std::size_t kRing = umem::ring_bytes(kShape.frames);
constexpr std::size_t kRequests = sizeof(ipc::ChannelHeader), kReplies = kRequests + kRing;

volatile unsigned g_sum = 0;  // of what was read, which the compiler would leave out

void demand(bool holds) {
    if (!holds) std::abort();
}

class Input {
  public:
    explicit Input(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
    bool empty() const { return bytes_.empty(); }
    // Behind the end there are zeros.
    template <class Value>
    Value next() {
        Value value{};
        const std::size_t count = std::min(bytes_.size(), sizeof value);
        std::memcpy(&value, bytes_.data(), count);
        bytes_ = bytes_.subspan(count);
        return value;
    }
    std::span<const std::uint8_t> rest() const { return bytes_; }

  private:
    std::span<const std::uint8_t> bytes_;
};

// What a process can do that has the memory: a push without any check, and a word anywhere.
void push(std::uint8_t* ring, const umem::Descriptor& descriptor) {
    auto* header = reinterpret_cast<umem::RingHeader*>(ring);
    const std::uint32_t tail = header->tail.load();
    std::memcpy(ring + sizeof *header + tail % kShape.frames * sizeof descriptor, &descriptor, sizeof descriptor);
    header->tail.store(tail + 1);
}

umem::Descriptor right_one(const ipc::End& end, umem::Kind kind, Input& input) {
    umem::Descriptor descriptor{};
    const std::uint32_t number = input.next<std::uint8_t>() % kShape.frames;
    descriptor.kind = kind;
    descriptor.frame = static_cast<umem::Frame>((end.frame(number).data() - end.region().base()) / umem::kUnit);
    descriptor.length = input.next<std::uint16_t>() % (kShape.frame_bytes + 1);
    descriptor.offset = (kShape.frame_bytes - descriptor.length) / 2;
    return descriptor;
}

// Whether the operation was one of the attacker's.
bool attacked(unsigned operation, ipc::End& end, std::uint8_t* ring, umem::Kind kind, Input& input) {
    switch (operation) {
        case 0: push(ring, input.next<umem::Descriptor>()); return true;
        case 1: push(ring, right_one(end, kind, input)); return true;
        case 2: {
            const std::size_t at = input.next<std::uint16_t>() % (kReplies + kRing) / 4 * 4;
            const auto value = input.next<std::uint32_t>();
            std::memcpy(end.region().base() + at, &value, sizeof value);
            return true;
        }
        case 3:
            if (!end.fall_asleep()) end.any_came();
            end.awake();
            return true;
        default: return false;
    }
}

unsigned sum_within(std::span<const std::uint8_t> bytes, std::span<const std::uint8_t> frame) {
    demand(bytes.data() >= frame.data() && bytes.data() + bytes.size() <= frame.data() + frame.size());
    unsigned sum = 0;
    for (const std::uint8_t byte : bytes) sum += byte;
    return sum;
}

unsigned attack_server(Input& input) {
    auto server = ipc::ServerEnd::create(kShape);
    demand(server.has_value());
    std::bitset<kShape.frames> held;
    unsigned sum = 0;
    while (!input.empty()) {
        const auto operation = input.next<std::uint8_t>();
        if (attacked(operation % 8, *server, server->region().base() + kRequests, umem::Kind::message, input)) continue;
        if (operation % 8 < 6) {
            ipc::Request request;
            const auto taken = server->take(request);
            if (taken && *taken) {
                demand(request.number < kShape.frames && !held[request.number]);
                held[request.number] = true;
                sum += sum_within(request.bytes, server->frame(request.number));
            }
        } else if (const std::uint32_t number = operation / 8 % kShape.frames; held[number]) {
            const bool given = operation % 8 == 6 ? server->answer(number, kShape.frame_bytes).has_value()
                                                  : server->release(number).has_value();
            sum += given;
            held[number] = false;
        }
        demand(server->held() == held.count());
    }
    return sum;
}

unsigned attack_client(ipc::ServerEnd& server, ipc::ClientEnd& client, Input& input) {
    std::bitset<kShape.frames> sent;
    unsigned sum = 0;
    while (!input.empty()) {
        const auto operation = input.next<std::uint8_t>();
        const auto kind = operation < 128 ? umem::Kind::send : umem::Kind::release;
        if (attacked(operation % 8, client, server.region().base() + kReplies, kind, input)) continue;
        if (operation % 8 < 6) {
            ipc::Reply reply;
            const auto reaped = client.reap(reply);
            if (reaped && *reaped) {
                demand(reply.number < kShape.frames && sent[reply.number]);
                sent[reply.number] = false;
                sum += sum_within(reply.bytes, client.frame(reply.number));
            }
        } else if (const std::uint32_t number = operation / 8 % kShape.frames; !sent[number]) {
            sum += client.submit(number, 1, number).has_value();
            sent[number] = true;
        }
        for (std::uint32_t i = 0; i < kShape.frames; i++) demand(client.is_on_its_way(i) == sent[i]);
    }
    return sum;
}

// A header of the attacker's, and a client that comes to it. `words` of it are other ones.
unsigned attack_attach(Input& input) {
    auto server = ipc::ServerEnd::create(kShape);
    demand(server.has_value());
    for (unsigned words = input.next<std::uint8_t>() % 8; words > 0; words--) {
        const std::size_t at = input.next<std::uint16_t>() % (kReplies + sizeof(umem::RingHeader)) / 4 * 4;
        const auto value = input.next<std::uint32_t>();
        std::memcpy(server->region().base() + at, &value, sizeof value);
    }
    auto client = ipc::ClientEnd::attach(server->region().fd());
    if (!client) return 0;
    const ipc::Shape& shape = client->shape();
    demand(ipc::wrong_shape(shape).empty());
    const std::uint8_t* end = client->region().base() + client->region().size();
    for (std::uint32_t i = 0; i < shape.frames; i++) demand(client->frame(i).data() + shape.frame_bytes <= end);
    if (shape.frames != kShape.frames || shape.frame_bytes != kShape.frame_bytes) return 1;
    return attack_client(*server, *client, input);
}

unsigned attack_meeting(Input& input) {
    std::array<int, 2> sockets{};
    demand(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets.data()) == 0);
    const ipc::OwnFd ours(sockets[0]), theirs(sockets[1]);
    const auto said = input.rest().first(std::min<std::size_t>(input.rest().size(), 4096));
    for (int i = 0; i < 2; i++) send(theirs.get(), said.data(), said.size(), MSG_NOSIGNAL);
    const auto hello = ipc::hear_hello(ours.get());
    if (hello)
        demand(!hello->service.empty() && hello->service.size() <= 255 && ipc::wrong_shape(hello->shape).empty());
    demand(!ipc::hear_answer(ours.get()));  // no descriptor came
    return hello.has_value();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Input input({data, size});
    const unsigned attack = input.next<std::uint8_t>() % 3;
    g_sum = attack == 0 ? attack_server(input) : attack == 1 ? attack_attach(input) : attack_meeting(input);
    return 0;
}
