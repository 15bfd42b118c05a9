// A program's side of a region, in the test's own process: claims a ring and posts events as protocol.h says.
#pragma once
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "runtime/shadow/region.h"
#include "runtime/shim/protocol.h"

namespace chainio::tests {

// The region, mapped a second time.
class MappedRegion {
  public:
    explicit MappedRegion(const std::string& path) : region_(shadow::map_region(path, true)) {}
    ~MappedRegion() {
        if (region_ != nullptr) munmap(region_, shim::kRegionBytes);
    }
    MappedRegion(const MappedRegion&) = delete;
    MappedRegion& operator=(const MappedRegion&) = delete;
    shim::Region* get() const { return region_; }
    shim::Region* operator->() const { return region_; }

  private:
    shim::Region* region_ = nullptr;
};

class Poster {
  public:
    Poster(shim::Region& region, unsigned ring, std::uint32_t process = static_cast<std::uint32_t>(getpid()),
           std::uint32_t thread = static_cast<std::uint32_t>(gettid()))
        : ring_(region.rings[ring]), holder_(region.holders[ring]), process_(process) {
        holder_.process = process;
        holder_.owner = thread;
        region.used_rings[ring / 64] |= std::uint64_t{1} << ring % 64;
    }
    // False when the ring has no room; the event is lost then.
    bool post(shim::Event event, std::span<const std::uint8_t> payload = {}) {
        event.bytes = static_cast<std::uint16_t>((sizeof event + payload.size() + 7) / 8 * 8);
        event.process = process_;
        std::uint32_t tail = ring_.tail.load();
        const std::uint32_t rest = shim::kRingBytes - tail % shim::kRingBytes;
        const std::uint32_t skipped = event.bytes > rest ? rest : 0;
        if (shim::kRingBytes - (tail - ring_.head.load()) < event.bytes + skipped) {
            ring_.lost++;
            return false;
        }
        if (skipped != 0) {
            if (skipped >= sizeof event) {
                shim::Event skip{};
                skip.kind = shim::EventKind::skip;
                std::memcpy(ring_.data + tail % shim::kRingBytes, &skip, sizeof skip);
            }
            tail += skipped;
        }
        std::uint8_t* at = ring_.data + tail % shim::kRingBytes;
        std::memcpy(at, &event, sizeof event);
        if (!payload.empty()) std::memcpy(at + sizeof event, payload.data(), payload.size());
        ring_.tail.store(tail + event.bytes);
        return true;
    }
    bool post_text(shim::Event event, std::string_view text) {
        event.length = static_cast<std::uint32_t>(text.size());
        return post(event, {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
    }
    bool opened(std::uint8_t file_class, const std::string& path, int flags = 0) {
        shim::Event event = of_file(shim::EventKind::opened, file_class, path);
        event.offset = static_cast<std::uint64_t>(flags);
        return post_text(event, path);
    }
    bool closed(std::uint8_t file_class, const std::string& path) {
        return post(of_file(shim::EventKind::closed, file_class, path));
    }
    bool read(std::uint8_t file_class, const std::string& path, std::uint64_t offset, std::uint32_t length,
              std::uint32_t took_ns = 100'000) {
        return post(of_range(shim::EventKind::read, file_class, path, offset, length, took_ns));
    }
    // That asked for more than there was.
    bool cut_short(std::uint8_t file_class, const std::string& path, std::uint64_t offset, std::uint32_t length,
                   std::uint32_t asked) {
        shim::Event event = of_file(shim::EventKind::read, file_class, path);
        event.offset = offset;
        event.length = length;
        event.took_ns = 100'000;
        return post(event, {reinterpret_cast<const std::uint8_t*>(&asked), sizeof asked});
    }
    bool begun(std::uint8_t file_class, const std::string& path, std::uint64_t offset, std::uint32_t length) {
        return post(of_range(shim::EventKind::begun, file_class, path, offset, length, 0));
    }
    bool ended(std::uint8_t file_class, const std::string& path, std::uint64_t offset, std::uint32_t length) {
        return post(of_range(shim::EventKind::ended, file_class, path, offset, length, 2'000));
    }
    bool served(std::uint8_t file_class, const std::string& path, std::uint64_t offset, std::uint32_t length) {
        return post(of_range(shim::EventKind::served, file_class, path, offset, length, 2'000));
    }
    // With O_DIRECT, from the disk.
    bool direct(std::uint8_t file_class, const std::string& path, std::uint64_t offset, std::uint32_t length) {
        return post(of_range(shim::EventKind::direct, file_class, path, offset, length, 100'000));
    }
    bool ready(std::uint8_t socket, std::string_view bytes) {
        shim::Event event{};
        event.kind = shim::EventKind::ready;
        event.source = socket;
        return post_text(event, bytes);
    }
    shim::Ring& ring() { return ring_; }
    shim::Holder& holder() { return holder_; }
    // Whether the server has taken everything.
    bool taken() const { return ring_.head.load() == ring_.tail.load(); }

  private:
    static shim::Event of_file(shim::EventKind kind, std::uint8_t file_class, const std::string& path) {
        shim::Event event{};
        event.kind = kind;
        event.source = file_class;
        struct stat info{};
        if (stat(path.c_str(), &info) == 0) {
            event.device = info.st_dev;
            event.inode = info.st_ino;
        }
        return event;
    }
    static shim::Event of_range(shim::EventKind kind, std::uint8_t file_class, const std::string& path,
                                std::uint64_t offset, std::uint32_t length, std::uint32_t took_ns) {
        shim::Event event = of_file(kind, file_class, path);
        event.offset = offset;
        event.length = length;
        event.took_ns = took_ns;
        return event;
    }
    shim::Ring& ring_;
    shim::Holder& holder_;
    std::uint32_t process_;
};

}  // namespace chainio::tests
