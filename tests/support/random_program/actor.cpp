#include "tests/support/random_program/actor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

extern "C" [[gnu::noinline, gnu::used]] void chainio_random_step(const char* file) {
    __asm__ volatile("" : : "r"(file));
}

namespace chainio::random_program {
namespace {

constexpr std::size_t kMostSlots = 10;
constexpr const char* kEndings[] = {".dat", ".dat", ".idx", ".txt"};

// From the begin of a page: O_DIRECT takes some addresses and refuses others, so they have to be alike in every run.
std::span<std::uint8_t> whole_pages(std::vector<std::uint8_t>& memory, std::size_t count) {
    memory.resize(count + kPage);
    const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
    return {memory.data() + (kPage - address % kPage) % kPage, count};
}

Operations all_operations(const Actor& actor) {
    Operations out;
    for (const auto& part : {file_operations(),     name_operations(),       spelling_operations(), memory_operations(),
                             transfer_operations(), socket_operations(),     web_operations(),      event_operations(),
                             signal_operations(),   descriptor_operations(), process_operations(),  thread_operations(),
                             ring_operations(),     edge_operations(),       space_operations(),    stream_operations(),
                             receive_operations(),  notice_operations(),     escape_operations(),   table_operations(),
                             alias_operations()}) {
        for (const Operation& each : part) {
            if (each.rings && process.served) continue;
            if ((actor.alone || each.in_threads) && (actor.depth == 0 || each.nested)) out.push_back(each);
        }
    }
    return out;
}

}  // namespace

Process process;

std::uint64_t Rng::next() {
    state_ += 0x9e3779b97f4a7c15;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

std::uint64_t hash_of(const void* data, std::size_t bytes) {
    std::uint64_t hash = 0xcbf29ce484222325;
    for (const auto* at = static_cast<const std::uint8_t*>(data); bytes > 0; ++at, --bytes)
        hash = (hash ^ *at) * 0x100000001b3;
    return hash;
}

Actor::Actor(std::string folder_in, std::uint64_t seed, bool alone_in, int depth_in)
    : rng(seed), folder(std::move(folder_in)), alone(alone_in), depth(depth_in) {
    program_ = process.base.substr(process.base.rfind('/') + 1) + "/";
    if (!folder.empty()) ::mkdir((process.base + "/" + folder).c_str(), 0755);
}

Actor::~Actor() { close_all(); }

void Actor::close_all() {
    for (const int fd : slots) ::close(fd);
    slots.clear();
}

void Actor::run(unsigned operations) {
    const Operations table = all_operations(*this);
    unsigned sum = 0;
    for (const Operation& each : table) sum += each.weight;
    for (unsigned i = 0; i < operations; ++i) {
        std::size_t at = rng.below(sum);
        for (const Operation& each : table) {
            if (at < each.weight) {
                log += fmt::format("{} {}\n", ++count_, each.name);
                chainio_random_step((program_ + plain_path(count_ % kFiles)).c_str());
                each.run(*this);
                break;
            }
            at -= each.weight;
        }
    }
}

void Actor::make_files() {
    for (unsigned i = 0; i < kFiles; ++i) {
        const int fd = ::open((process.base + "/" + plain_path(i)).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
        const auto data = random_bytes(rng.below(kMostBytes));
        if (fd < 0 || ::write(fd, data.data(), data.size()) < 0) text("no file");
        if (fd >= 0) ::close(fd);
    }
}

void Actor::note(std::string_view what, long result, int error) {
    if (error == kUntouched) {
        log += fmt::format("  {} = {}\n", what, result);
    } else {
        log += fmt::format("  {} = {} {}\n", what, result,
                           ::strerrorname_np(error) ? ::strerrorname_np(error) : "errno 0");
    }
}

void Actor::bytes(const void* data, long count) {
    if (count > 0) log += fmt::format("    {:016x}\n", hash_of(data, static_cast<std::size_t>(count)));
}

void Actor::text(std::string_view line) { log += fmt::format("  {}\n", line); }

void Actor::position(int fd) {
    call("position", [&] { return ::lseek(fd, 0, SEEK_CUR); });
}

// Half of the words are small numbers: specs take them for offsets, so that many reads lead to other places of the
// file.
std::span<std::uint8_t> Actor::random_bytes(std::size_t count) {
    const auto bytes = whole_pages(out_, (count + 7) / 8 * 8);
    for (std::size_t i = 0; i < bytes.size(); i += 8) {
        const std::uint64_t word = rng.next();
        const std::uint64_t kept = word & 1 ? word : (word >> 8) & 0x7fff;
        std::memcpy(bytes.data() + i, &kept, sizeof kept);
    }
    return bytes.first(count);
}

std::span<std::uint8_t> Actor::buffer(std::size_t count) {
    const auto bytes = whole_pages(in_, count);
    std::ranges::fill(bytes, std::uint8_t{0});
    return bytes;
}

std::string Actor::plain_path(unsigned file) const { return fmt::format("{}f{}{}", folder, file, kEndings[file % 4]); }

std::string Actor::path(unsigned file) {
    const std::string name = plain_path(file);
    const std::string here = process.in_sub ? "../" : "";
    switch (rng.below(4)) {
        case 0: return process.base + "/" + name;
        case 1: return here + name;
        case 2: return "./" + here + name;
        default: return process.base + "/sub/..//" + name;
    }
}

std::string Actor::fixed_path() { return fmt::format("{}/fixed{}.imm", process.base, rng.below(3)); }

int Actor::slot() {
    if (slots.empty()) return -1;
    return slots[rng.below(slots.size())];
}

// A direct write of an odd length is refused, but only when the kernel comes to its odd end: by then it has written
// what lies on pieces of the disk before that one. So such a write stays within one block.
std::size_t Actor::writable(int fd, std::size_t length) {
    constexpr std::size_t kSector = 512;
    const int flags = ::fcntl(fd, F_GETFL);
    return flags >= 0 && (flags & O_DIRECT) != 0 && length % kSector != 0 ? length % kSector : length;
}

void Actor::keep(int fd) {
    // dup2 over a kept number must not leave it in the list twice, nor close it to make room for itself: the number of
    // a closed one soon stands for what another thread opened.
    if (fd < 0 || std::ranges::find(slots, fd) != slots.end()) return;
    if (slots.size() >= kMostSlots) {
        const std::size_t at = rng.below(slots.size());
        ::close(slots[at]);
        slots.erase(slots.begin() + static_cast<std::ptrdiff_t>(at));
    }
    slots.push_back(fd);
}

int Actor::open_some(int flags) { return ::open(path(file()).c_str(), flags | O_CLOEXEC, 0644); }

void write_log(const std::string& path, std::string_view text) {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    while (fd >= 0 && !text.empty()) {
        const ssize_t done = ::write(fd, text.data(), text.size());
        if (done <= 0) break;
        text.remove_prefix(static_cast<std::size_t>(done));
    }
    if (fd >= 0) ::close(fd);
}

}  // namespace chainio::random_program
