#include "runtime/net/replies.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstring>

#include "runtime/net/clock.h"

namespace chainio::net {
namespace {

static_assert(sizeof(cio_kept_set) == 64, "a set is a cache line");
static_assert(sizeof(cio_kept_place) == 2048, "places do not straddle pages");
static_assert(offsetof(cio_kept_place, reply) % 64 == 0);
static_assert(sizeof(cio_kept_epoch) == 64);
static_assert(std::endian::native == std::endian::little);

template <class T>
void put(T& at, T value) {
    std::atomic_ref<T>(at).store(value, std::memory_order_relaxed);
}
template <class T>
T get(const T& at) {
    return std::atomic_ref<T>(const_cast<T&>(at)).load(std::memory_order_relaxed);
}

std::uint16_t sum_of(const std::uint8_t* bytes, std::size_t length) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < length; i++) sum += i % 2 == 0 ? std::uint64_t{bytes[i]} : std::uint64_t{bytes[i]} << 8;
    while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
    return static_cast<std::uint16_t>(sum);
}

// Bytes that the request has as far apart as the head are repeated together.
void write_head(cio_kept_service& made, std::span<const std::uint16_t> head) {
    for (std::uint32_t i = 0; i < made.head_length; i++) {
        if (head[i] >= CIO_KEPT_FIXED) {
            made.head[i] = static_cast<std::uint8_t>(head[i]);
            continue;
        }
        const std::uint32_t word = i / 8, from = head[i] + 8 - i % 8;
        const std::span all(made.repeat, made.repeats + 1);
        cio_kept_repeat& repeat = *std::ranges::find_if(all, [&](const cio_kept_repeat& each) {
            return &each == &all.back() || (each.to == word && each.from == from);
        });
        if (&repeat == &all.back()) made.repeats++;
        repeat.to = word;
        repeat.from = from;
        repeat.mask |= std::uint64_t{0xff} << 8 * (i % 8);
    }
}

}  // namespace

ReplyTable::ReplyTable(std::vector<KeptService> services) : services_(std::move(services)), kept_(services_.size()) {
    std::uint32_t first = 0;
    for (std::uint32_t number = 0; number < services_.size(); number++) {
        const KeptService& service = services_[number];
        cio_kept_service& made = looked_up_.emplace_back();
        made.number = number;
        if (service.entries == 0) continue;
        made.sets = std::bit_ceil((service.entries + CIO_KEPT_WAYS - 1) / CIO_KEPT_WAYS);
        made.first_set = first;
        first += made.sets;
        made.head_length = static_cast<std::uint32_t>(std::min<std::size_t>(service.head.size(), CIO_KEPT_HEAD));
        for (std::size_t i = 0; i < CIO_KEPT_FIXED; i++)
            made.compared[i] = i >= service.compared.size() || service.compared[i] != 0 ? 0xff : 0;
        write_head(made, service.head);
    }
    sets_ = std::max(first, 1u);
}

cio_kept_service ReplyTable::service_at(std::uint16_t port) const {
    const auto found = std::ranges::find(services_, port, &KeptService::port);
    return found == services_.end() ? cio_kept_service{}
                                    : looked_up_[static_cast<std::size_t>(found - services_.begin())];
}

void ReplyTable::use(const ReplyMemory& memory, std::uint64_t seed) {
    memory_ = memory;
    seed_ = seed;
    for (const cio_kept_service& service : looked_up_)
        if (service.sets != 0) put<decltype(cio_kept_epoch::now)>(memory_.epochs[service.number].now, 1);
}

std::uint64_t ReplyTable::epoch(std::size_t number) const {
    return memory_.epochs.empty() ? 0 : get(memory_.epochs[number].now);
}

void ReplyTable::forget() {
    for (std::size_t i = 0; i < services_.size() && !memory_.epochs.empty(); i++) {
        auto& now = memory_.epochs[i].now;
        if (get(now) != 0) put(now, get(now) + 1);
    }
    std::atomic_thread_fence(std::memory_order_seq_cst);
}

void ReplyTable::stop() {
    for (std::size_t i = 0; i < services_.size() && !memory_.epochs.empty(); i++)
        put<decltype(cio_kept_epoch::now)>(memory_.epochs[i].now, 0);
    std::atomic_thread_fence(std::memory_order_seq_cst);
}

// As `split` and `place_of` of the program do it.
ReplyTable::Looked ReplyTable::look(std::size_t number, std::span<const std::uint8_t> request) const {
    Looked out;
    out.request.fill(0);
    out.length = static_cast<std::uint32_t>(request.size());
    std::ranges::copy(request, out.request.begin());
    for (std::size_t i = 0; i < CIO_KEPT_FIXED; i++) out.request[i] &= looked_up_[number].compared[i];
    out.hash = seed_;
    for (std::size_t i = 0; i < request.size(); i += 8) {
        __u64 word = 0;
        std::memcpy(&word, out.request.data() + i, sizeof word);
        out.hash = cio_kept_mix(out.hash, word);
    }
    out.hash = cio_kept_mix(out.hash, out.length);
    return out;
}

bool ReplyTable::is_current(const cio_kept_place& place, std::uint64_t now) const {
    return place.epoch == get(memory_.epochs[place.service].now) && place.expires_ns > now;
}

// Where it stands already, else a free place, else one that nobody is answered from any more, else the one that was
// used the longest time ago; of the sets that it leads to, the first one as long as that has a free place.
std::uint32_t ReplyTable::place_for(const cio_kept_service& service, std::uint64_t hash, std::uint64_t now) const {
    const auto tick = static_cast<std::uint32_t>(now >> CIO_KEPT_TICK);
    std::uint32_t best = 0;
    std::uint64_t best_rank = 0;
    for (int which = 0; which < CIO_KEPT_SETS; which++) {
        const std::uint32_t number = service.first_set + (cio_kept_set_of(hash, which) & (service.sets - 1));
        const cio_kept_set& set = memory_.sets[number];
        for (std::uint32_t way = 0; way < CIO_KEPT_WAYS; way++) {
            const std::uint32_t at = number * CIO_KEPT_WAYS + way;
            const std::uint32_t there = get(set.tag[way]);
            std::uint64_t rank = 1 + (tick - get(set.used[way]));
            if (there == cio_kept_tag(hash))
                return at;
            else if (there == 0)
                rank = std::uint64_t{1} << 41;
            else if (!is_current(memory_.places[at], now))
                rank |= std::uint64_t{1} << 40;
            if (rank <= best_rank) continue;
            best = at;
            best_rank = rank;
        }
    }
    return best;
}

// Whether the program would write the same begin.
bool ReplyTable::head_matches(std::size_t number, std::span<const std::uint8_t> request,
                              std::span<const std::uint8_t> head) const {
    const cio_kept_service& service = looked_up_[number];
    if (head.size() < service.head_length) return false;
    for (std::size_t i = 0; i < service.head_length; i++) {
        const std::uint16_t from = services_[number].head[i];
        if (from < CIO_KEPT_FIXED && from >= request.size()) return false;
        if (head[i] != (from < CIO_KEPT_FIXED ? request[from] : static_cast<std::uint8_t>(from))) return false;
    }
    return true;
}

bool ReplyTable::keep(std::size_t number, std::uint64_t epoch, std::uint64_t asked_ns,
                      std::span<const std::uint8_t> request, std::span<const std::span<const std::uint8_t>> reply) {
    const cio_kept_service& service = looked_up_[number];
    if (epoch == 0 || epoch != this->epoch(number)) return false;
    if (request.empty() || request.size() > CIO_KEPT_REQUEST) return false;
    std::size_t length = 0;
    for (const auto& part : reply) length += part.size();
    if (length == 0 || length > CIO_KEPT_REPLY || !head_matches(number, request, reply[0])) return false;

    const Looked looked = look(number, request);
    const std::uint64_t now = now_ns();
    const std::uint32_t tag = cio_kept_tag(looked.hash);
    const std::uint32_t at = place_for(service, looked.hash, now), way = at % CIO_KEPT_WAYS;
    cio_kept_set& set = memory_.sets[at / CIO_KEPT_WAYS];
    cio_kept_place& place = memory_.places[at];
    const bool same = get(set.tag[way]) == tag && place.service == service.number &&
                      place.request_length == looked.length &&
                      std::memcmp(place.request, looked.request.data(), looked.request.size()) == 0;
    // The driver had no room for it in the packet, or several asked at once.
    if (same && is_current(place, now)) return false;

    const std::uint32_t version = place.version;
    put(place.version, version + 1);
    std::atomic_thread_fence(std::memory_order_release);
    place.service = service.number;
    place.request_length = looked.length;
    place.reply_length = static_cast<std::uint16_t>(length);
    place.epoch = epoch;
    place.expires_ns = asked_ns + services_[number].ttl_ns;
    std::memcpy(place.request, looked.request.data(), looked.request.size());
    std::size_t filled = 0;
    for (const auto& part : reply) {
        if (!part.empty()) std::memcpy(place.reply + filled, part.data(), part.size());
        filled += part.size();
    }
    std::memset(place.reply, 0, service.head_length);
    place.sum = sum_of(place.reply, length);
    std::atomic_ref(place.version).store(version + 2, std::memory_order_release);
    put(set.used[way], static_cast<__u32>(now >> CIO_KEPT_TICK));
    put(set.tag[way], tag);
    kept_[number]++;
    return true;
}

}  // namespace chainio::net
