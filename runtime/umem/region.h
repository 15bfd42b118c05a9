// One memfd mapping that holds every frame: it can be registered with a ring and be handed to another process.
#pragma once
#include <cstddef>
#include <cstdint>
#include <expected>
#include <string>

namespace chainio::umem {

class Region {
  public:
    // At least `bytes` of zeroed memory; huge pages when the machine has any to spare. One readable page lies behind
    // it. Its size is sealed.
    static std::expected<Region, std::string> create(std::size_t bytes, bool want_huge);
    // Maps the region of another process, whose descriptor came over a socket or by inheritance; the descriptor stays
    // the caller's. Refused: what is no region, and what its maker could still cut short under us.
    static std::expected<Region, std::string> attach(int fd);
    Region(Region&& other) noexcept;
    Region& operator=(Region&& other) noexcept;
    Region(const Region&) = delete;
    Region& operator=(const Region&) = delete;
    ~Region();

    std::uint8_t* base() const { return base_; }
    std::size_t size() const { return size_; }
    int fd() const { return fd_; }
    bool huge() const { return huge_; }
    // Takes all of the memory now, and has the kernel put it into huge pages where there is room for that: for memory
    // that is pinned anyhow and is reached all over. Without huge pages everything stays as it is.
    void gather();
    bool in_huge_pages() const { return huge_ || gathered_; }
    // It stays where it is until the process ends, whatever becomes of this: somebody may write into it still, who
    // would otherwise write into what comes to lie there.
    void leave_mapped() { left_ = true; }

  private:
    Region() = default;
    std::expected<void, std::string> map();
    void reset();
    std::uint8_t* base_ = nullptr;
    std::size_t size_ = 0;
    std::size_t mapped_ = 0;
    int fd_ = -1;
    bool huge_ = false;
    bool gathered_ = false;
    bool left_ = false;
};

}  // namespace chainio::umem
