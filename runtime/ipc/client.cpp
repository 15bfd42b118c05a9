#include "runtime/ipc/client.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace chainio::ipc {
namespace {

// Tells the processor that this is a loop which waits for another one.
void relax() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

}  // namespace

int Deadline::left_ms() const {
    if (endless_) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(at_ - Clock::now()).count();
    return static_cast<int>(std::clamp<std::int64_t>(left, 0, INT_MAX));
}

Client::Client(ClientEnd end, OwnFd socket, OwnFd server_bell, OwnFd own_bell, OwnFd watch, unsigned spin_us)
    : end_(std::move(end)),
      socket_(std::move(socket)),
      server_bell_(std::move(server_bell)),
      own_bell_(std::move(own_bell)),
      watch_(std::move(watch)),
      spin_us_(spin_us),
      slots_(end_.shape().frames),
      kept_(end_.shape().frames) {
    free_.reserve(slots_.size());
    for (std::uint32_t number = end_.shape().frames; number-- > 0;) free_.push_back(number);
}

std::unexpected<Wrong> Client::wrong(int number, const char* form, ...) {
    va_list values;
    va_start(values, form);
    std::vsnprintf(text_.data(), text_.size(), form, values);
    va_end(values);
    return std::unexpected(Wrong{number, text_.data()});
}

std::optional<std::uint32_t> Client::number_of(const void* frame) const {
    const auto at = reinterpret_cast<std::uintptr_t>(frame), first = reinterpret_cast<std::uintptr_t>(this->frame(0));
    if (at < first || (at - first) % longest() != 0) return std::nullopt;
    const std::uintptr_t number = (at - first) / longest();
    if (number >= frames()) return std::nullopt;
    return static_cast<std::uint32_t>(number);
}

std::optional<Wrong> Client::stopped() {
    if (broken_ != nullptr)
        return wrong(EPROTO, "the server has broken the protocol (%s): open another one", broken_).error();
    if (gone_) return Wrong{EPIPE, "the server is gone: open another one once it runs again"};
    return std::nullopt;
}

std::optional<std::uint32_t> Client::take() {
    if (free_.empty()) collect();
    if (free_.empty()) return std::nullopt;
    const std::uint32_t number = free_.back();
    free_.pop_back();
    slots_[number].state = State::caller;
    return number;
}

std::expected<void, Wrong> Client::push(std::uint32_t number, std::size_t bytes) {
    const auto pushed = end_.submit(number, static_cast<std::uint32_t>(bytes), number);
    if (!pushed) {
        broken_ = umem::name_of(pushed.error()).data();
        return std::unexpected(*stopped());
    }
    if (*pushed) ring_bell(server_bell_.get());
    return {};
}

std::expected<void, Wrong> Client::submit(std::uint32_t number, std::size_t bytes, std::uint64_t user_data) {
    if (number >= frames() || slots_[number].state != State::caller)
        return wrong(EINVAL, "the frame is not the caller's: submit one that was taken, or came with a reply");
    if (bytes > longest())
        return wrong(EMSGSIZE, "a request has at most %zu bytes, not %zu: open with a larger `longest`", longest(),
                     bytes);
    if (const auto why = stopped()) return std::unexpected(*why);
    slots_[number] = {user_data, State::sent};
    in_flight_++;
    return push(number, bytes);
}

std::expected<void, Wrong> Client::release(std::uint32_t number) {
    if (number >= frames() || slots_[number].state != State::caller)
        return wrong(EINVAL, "the frame is not the caller's: release one that was taken, or came with a reply");
    slots_[number].state = State::free;
    free_.push_back(number);
    return {};
}

// What came over the ring and somebody waits for; what nobody does is free again.
bool Client::came(Answered& out) {
    while (broken_ == nullptr) {
        Reply reply;
        const auto reaped = end_.reap(reply);
        if (reaped && !*reaped) return false;
        if (!reaped || reply.serial != reply.number) {
            broken_ = reaped ? "another serial" : umem::name_of(reaped.error()).data();
            return false;
        }
        Slot& slot = slots_[reply.number];
        out = {slot.user_data, reply.number, reply.bytes, reply.answered};
        if (slot.state != State::given_up) return true;
        slot.state = State::free;
        free_.push_back(reply.number);
    }
    return false;
}

bool Client::next(Answered& out) {
    if (kept_count_ == 0) {
        if (!came(out)) return false;
    } else {
        out = kept_[first_kept_];
        first_kept_ = (first_kept_ + 1) % kept_.size();
        kept_count_--;
    }
    slots_[out.number].state = State::caller;
    in_flight_--;
    return true;
}

// Frames of calls that were given up may have come back, and nobody reaps where only calls are made.
void Client::collect() {
    Answered answered;
    while (came(answered)) keep(answered);
    tell_watcher();
}

void Client::keep(const Answered& answered) {
    slots_[answered.number].state = State::kept;
    kept_[(first_kept_ + kept_count_++) % kept_.size()] = answered;
}

bool Client::spin(const Deadline& deadline) const {
    if (spin_us_ == 0) return false;
    const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(spin_us_);
    do {
        // The clock takes longer than a look.
        for (int i = 0; i < 32; i++) {
            if (end_.any_came()) return true;
            relax();
        }
    } while (std::chrono::steady_clock::now() < end && !deadline.is_over());
    return false;
}

// For a reply or the server's end. A bell is hushed only before the word says that this side sleeps: after that, either
// it still says so, or the server has rung, or is about to. So whoever watches the bell misses nothing.
void Client::wait(const Deadline& deadline) {
    if (!deadline.is_over() && spin(deadline)) return;
    if (!end_.fall_asleep() && !watched_) {
        end_.awake();
        return;
    }
    std::array<pollfd, 2> both{pollfd{own_bell_.get(), POLLIN, 0}, pollfd{socket_.get(), POLLIN | POLLRDHUP, 0}};
    const int ready = poll(both.data(), both.size(), end_.any_came() ? 0 : deadline.left_ms());
    if (ready > 0 && both[0].revents != 0) hush_bell(own_bell_.get());
    gone_ |= ready > 0 && both[1].revents != 0 && hear_wakes(socket_.get()) == Heard::gone;
    if (watched_)
        end_.fall_asleep();
    else
        end_.awake();
}

void Client::tell_watcher() {
    if (watched_ && (kept_count_ != 0 || end_.any_came())) ring_bell(own_bell_.get());
}

std::expected<unsigned, Wrong> Client::reap(std::span<Answered> out, int timeout_ms) {
    if (out.empty()) return 0;
    const Deadline deadline(timeout_ms), now(0);
    for (bool last = false;; last = last || deadline.is_over()) {
        unsigned count = 0;
        while (count < out.size() && next(out[count])) count++;
        if (count == out.size()) tell_watcher();
        if (count != 0) return count;
        if (const auto why = stopped()) return std::unexpected(*why);
        if (last) return 0;
        last = in_flight_ == 0;
        wait(last ? now : deadline);
    }
}

void Client::give_up(std::uint32_t number) { slots_[number].state = State::given_up; }

std::expected<std::size_t, Wrong> Client::called(const Answered& answered, std::span<std::uint8_t> room) {
    slots_[answered.number].state = State::free;
    free_.push_back(answered.number);
    if (!answered.answered)
        return wrong(ENOMSG,
                     "the server has given no reply, as of a request that it does not understand, or has no time for");
    if (answered.bytes.size() > room.size())
        return wrong(EMSGSIZE, "the reply has %zu bytes, and there is room for %zu", answered.bytes.size(),
                     room.size());
    if (!answered.bytes.empty()) std::memcpy(room.data(), answered.bytes.data(), answered.bytes.size());
    return answered.bytes.size();
}

std::expected<std::size_t, Wrong> Client::call(std::span<const std::uint8_t> request, std::span<std::uint8_t> room,
                                               int timeout_ms) {
    if (request.size() > longest())
        return wrong(EMSGSIZE, "a request has at most %zu bytes, not %zu: open with a larger `longest`", longest(),
                     request.size());
    if (const auto why = stopped()) return std::unexpected(*why);
    const Deadline deadline(timeout_ms);
    const auto number = take();
    if (!number)
        return wrong(EBUSY,
                     "all %zu frames are on their way or with the caller: reap and release some, or open with a larger "
                     "`in_flight`",
                     frames());
    slots_[*number].state = State::called;
    if (!request.empty()) std::memcpy(frame(*number), request.data(), request.size());
    if (const auto pushed = push(*number, request.size()); !pushed) return std::unexpected(pushed.error());
    for (bool last = false;; last = last || deadline.is_over()) {
        Answered answered;
        while (came(answered)) {
            if (answered.number == *number) {
                tell_watcher();
                return called(answered, room);
            }
            keep(answered);
        }
        const auto why = stopped();
        if (!why && !last) {
            wait(deadline);
            continue;
        }
        give_up(*number);
        tell_watcher();
        if (why) return std::unexpected(*why);
        return wrong(ETIMEDOUT, "no reply has come within %d ms", timeout_ms);
    }
}

int Client::fd() {
    watched_ = true;
    if (!end_.fall_asleep() || kept_count_ != 0) ring_bell(own_bell_.get());
    return watch_.get();
}

}  // namespace chainio::ipc
