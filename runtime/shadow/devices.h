// What is known of the devices that files lie on, by their numbers: asked once each, or once in a while.
#pragma once
#include <cstdint>
#include <map>
#include <span>

#include "runtime/shim/protocol.h"

namespace chainio::shadow {

class Devices {
  public:
    struct Device {
        std::uint64_t read_ahead = 0;  // how far the kernel reads ahead, bytes
        bool begins_reads = false;     // its file system begins a read and lets go of who asked for it
        bool counts_pages = false;     // its files have their pages themselves: cachestat(2) tells what is in memory
    };
    // Null where none of its files was opened.
    const Device* find(std::uint64_t number) const;
    // Of an open file of that size.
    const Device& of(std::uint64_t number, int fd, std::uint64_t size);
    // Whether the kernel makes a file (of /proc and the like) when it is read; `fd` may be one of O_PATH. On FUSE and
    // NFS the kernel asks the file system's server, which takes as long as a read: once in a while, as the number of a
    // device may be given to another one.
    bool made_when_read(std::uint64_t number, int fd);
    // What programs are told of disks (Region::disks) is forgotten with the rest.
    void tell_programs(std::span<shim::DiskFacts> disks) { told_ = disks; }

  private:
    void forget(std::uint64_t number);

    std::map<std::uint64_t, Device> devices_;
    struct Kind {
        std::uint64_t kind = 0, id = 0;  // of file system, and which one, as statfs(2) says it
        std::uint64_t looked_ns = 0;     // when its files were last known not to be made
    };
    std::map<std::uint64_t, Kind> kinds_;
    std::span<shim::DiskFacts> told_;
};

}  // namespace chainio::shadow
