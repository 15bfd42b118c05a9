#include "runtime/ipc/channel.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <new>

namespace chainio::ipc {
namespace {

// Where everything lies in a region of that shape.
struct Layout {
    explicit Layout(const Shape& shape)
        : entries(std::max(2u, std::bit_ceil(shape.frames))),
          requests(sizeof(ChannelHeader)),
          replies(requests + umem::ring_bytes(entries)),
          frames((replies + umem::ring_bytes(entries) + shape.frame_bytes - 1) / shape.frame_bytes * shape.frame_bytes),
          end(frames + std::size_t{shape.frames} * shape.frame_bytes) {}
    std::uint32_t entries;
    std::size_t requests, replies, frames, end;
};

std::span<std::uint8_t> ring_at(const umem::Region& region, std::size_t at, std::uint32_t entries) {
    return {region.base() + at, umem::ring_bytes(entries)};
}

}  // namespace

std::string wrong_shape(const Shape& shape) {
    if (shape.frames < 1 || shape.frames > kMostFrames)
        return "a channel has 1 to " + std::to_string(kMostFrames) + " frames, not " + std::to_string(shape.frames);
    const bool size = std::has_single_bit(shape.frame_bytes) && shape.frame_bytes >= umem::kUnit &&
                      shape.frame_bytes <= umem::kMaxFrame;
    if (!size)
        return "a frame has a power of two of bytes, " + std::to_string(umem::kUnit) + " to " +
               std::to_string(umem::kMaxFrame) + ", not " + std::to_string(shape.frame_bytes);
    return {};
}

// The store has to be seen before the ring is looked at, as the other side's push is before its look at this: of two
// that look at the same time at least one sees what the other has done.
bool End::fall_asleep() {
    own_sleep_->store(1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return !any_came();
}

bool End::awake() { return own_sleep_->exchange(0, std::memory_order_relaxed) == 0; }

std::optional<std::uint32_t> End::number_of(const umem::Descriptor& descriptor) const {
    const std::uint64_t at = std::uint64_t{descriptor.frame} * umem::kUnit;
    if (at < frames_at_ || (at - frames_at_) % shape_.frame_bytes != 0) return std::nullopt;
    const std::uint64_t number = (at - frames_at_) / shape_.frame_bytes;
    if (number >= shape_.frames) return std::nullopt;
    if (std::uint64_t{descriptor.offset} + descriptor.length > shape_.frame_bytes) return std::nullopt;
    return static_cast<std::uint32_t>(number);
}

// There is an entry for each frame, so that a ring without room is one whose reader does not give back what it reads.
std::expected<bool, umem::Fault> End::push(const umem::Descriptor& descriptor) {
    const auto pushed = out_.push(descriptor);
    if (!pushed) return std::unexpected(pushed.error());
    if (!*pushed) return std::unexpected(umem::Fault::bad_index);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return other_sleep_->load(std::memory_order_relaxed) != 0 &&
           other_sleep_->exchange(0, std::memory_order_relaxed) != 0;
}

std::expected<ServerEnd, std::string> ServerEnd::create(const Shape& shape) {
    if (std::string wrong = wrong_shape(shape); !wrong.empty()) return std::unexpected(std::move(wrong));
    const Layout layout(shape);
    auto region = umem::Region::create(layout.end, false);
    if (!region) return std::unexpected(region.error());
    auto* header = new (region->base()) ChannelHeader{};
    header->magic = kChannelMagic;
    header->version = kChannelVersion;
    header->frames = shape.frames;
    header->frame_bytes = shape.frame_bytes;
    header->entries = layout.entries;
    const auto requests = ring_at(*region, layout.requests, layout.entries);
    const auto replies = ring_at(*region, layout.replies, layout.entries);
    for (const auto& ring : {requests, replies})
        if (auto made = umem::make_ring(ring, layout.entries); !made) return std::unexpected(made.error());
    auto in = umem::Consumer::attach(requests, {.region_bytes = region->size(), .classes = 1});
    auto out = umem::Producer::attach(replies);
    if (!in || !out) return std::unexpected(!in ? in.error() : out.error());
    ServerEnd end(std::move(*region), shape, layout.frames, *out, *in, header->server_sleeps, header->client_sleeps);
    end.serials_.resize(shape.frames);
    end.held_.resize(shape.frames);
    return end;
}

std::expected<bool, umem::Fault> ServerEnd::take(Request& out) {
    umem::Descriptor descriptor;
    const auto popped = in_.pop(descriptor);
    if (!popped || !*popped) return popped;
    if (descriptor.kind != umem::Kind::message) return std::unexpected(umem::Fault::bad_kind);
    const auto number = number_of(descriptor);
    // One that is here already is not the client's to hand over.
    if (!number || held_[*number]) return std::unexpected(umem::Fault::bad_frame);
    held_[*number] = true;
    held_count_++;
    serials_[*number] = descriptor.serial;
    out = {*number, std::span<const std::uint8_t>(frame(*number)).subspan(descriptor.offset, descriptor.length)};
    return true;
}

std::expected<bool, umem::Fault> ServerEnd::answer(std::uint32_t number, std::uint32_t length) {
    return give_back(umem::Kind::send, number, length);
}

std::expected<bool, umem::Fault> ServerEnd::release(std::uint32_t number) {
    return give_back(umem::Kind::release, number, 0);
}

std::expected<bool, umem::Fault> ServerEnd::give_back(umem::Kind kind, std::uint32_t number, std::uint32_t length) {
    held_[number] = false;
    held_count_--;
    umem::Descriptor descriptor{};
    descriptor.kind = kind;
    descriptor.frame = name_of(number);
    descriptor.length = length;
    descriptor.serial = serials_[number];
    return push(descriptor);
}

std::expected<ClientEnd, std::string> ClientEnd::attach(int fd) {
    auto region = umem::Region::attach(fd);
    if (!region) return std::unexpected(region.error());
    auto* header = std::launder(reinterpret_cast<ChannelHeader*>(region->base()));
    if (header->magic != kChannelMagic) return std::unexpected("the server's region holds no channel");
    if (header->version != kChannelVersion)
        return std::unexpected("the server's channel is of version " + std::to_string(header->version) +
                               ", this program reads version " + std::to_string(kChannelVersion) +
                               ": use the same version of ChainIO on both sides");
    const Shape shape{std::atomic_ref(header->frames).load(std::memory_order_relaxed),
                      std::atomic_ref(header->frame_bytes).load(std::memory_order_relaxed)};
    if (!wrong_shape(shape).empty() || Layout(shape).end > region->size())
        return std::unexpected("the server's region is too small for what it says that it holds");
    const Layout layout(shape);
    auto out = umem::Producer::attach(ring_at(*region, layout.requests, layout.entries));
    auto in = umem::Consumer::attach(ring_at(*region, layout.replies, layout.entries),
                                     {.region_bytes = region->size(), .classes = 1});
    if (!in || !out) return std::unexpected(!in ? in.error() : out.error());
    if (out->entries() != layout.entries || in->entries() != layout.entries)
        return std::unexpected("the server's rings have not as many entries as the channel says");
    ClientEnd end(std::move(*region), shape, layout.frames, *out, *in, header->client_sleeps, header->server_sleeps);
    end.sent_.resize(shape.frames);
    return end;
}

std::expected<bool, umem::Fault> ClientEnd::submit(std::uint32_t number, std::uint32_t length, std::uint32_t serial) {
    umem::Descriptor descriptor{};
    descriptor.kind = umem::Kind::message;
    descriptor.frame = name_of(number);
    descriptor.length = length;
    descriptor.serial = serial;
    sent_[number] = true;
    return push(descriptor);
}

std::expected<bool, umem::Fault> ClientEnd::reap(Reply& out) {
    umem::Descriptor descriptor;
    const auto popped = in_.pop(descriptor);
    if (!popped || !*popped) return popped;
    if (descriptor.kind != umem::Kind::send && descriptor.kind != umem::Kind::release)
        return std::unexpected(umem::Fault::bad_kind);
    const auto number = number_of(descriptor);
    if (!number || !sent_[*number]) return std::unexpected(umem::Fault::bad_frame);
    sent_[*number] = false;
    out = {*number, descriptor.serial, frame(*number).subspan(descriptor.offset, descriptor.length),
           descriptor.kind == umem::Kind::send};
    return true;
}

// What has no kind is no file, no pipe and no socket.
bool is_bell(int fd) {
    struct stat status{};
    const int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && (flags & O_NONBLOCK) != 0 && fstat(fd, &status) == 0 && (status.st_mode & S_IFMT) == 0;
}

// One whose count is at its largest has been rung already.
void ring_bell(int fd) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = write(fd, &one, sizeof one);
}

bool hush_bell(int fd) {
    std::uint64_t count = 0;
    return read(fd, &count, sizeof count) == sizeof count;
}

}  // namespace chainio::ipc
