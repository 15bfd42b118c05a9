// The files that the server and the programs of its run map, in a directory of their own that goes away with the
// server.
#pragma once
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/shim/protocol.h"

namespace chainio::shadow {

class RegionFile {
  public:
    // In $XDG_RUNTIME_DIR, else /dev/shm, else /tmp: the first that can be written and has room. Also removes the
    // directories of servers of this user that have died.
    static std::expected<RegionFile, std::string> create();
    // Why this process may not: its limit of file sizes. Empty: it may.
    static std::string forbidden();
    // One that this process has made before it executed another program, and the lock that it has handed on.
    static std::expected<RegionFile, std::string> adopt(const std::string& path, int lock);
    RegionFile(RegionFile&& other) noexcept;
    RegionFile& operator=(RegionFile&&) = delete;
    RegionFile(const RegionFile&) = delete;
    RegionFile& operator=(const RegionFile&) = delete;
    ~RegionFile();

    shim::Region& get() const { return *region_; }
    const std::string& path() const { return path_; }
    // A descriptor, for the program that this process is about to become.
    int hand_on_lock() const;

  private:
    RegionFile() = default;
    static std::expected<RegionFile, std::string> create_in(const std::string& base);
    std::string directory_, path_;
    int lock_ = -1;  // the directory: by its lock those who cannot see this process know that it is in use
    shim::Region* region_ = nullptr;
};

// The two files of a region (protocol.h), empty: `path` and the one beside it. False, with errno, when it cannot.
bool make_region(const std::string& path);
// Puts beside it, before a program begins, what its plan wants there: the code that programs run themselves, which the
// plan then says, and where a class is immutable the first page of what reads are served from (served.h). A file system
// that has no room, or lets nothing be executed, leaves all to the server, or to the disk.
void put_beside(std::string_view steps, const RegionFile& region);
// Maps them as one; null, with errno, when they cannot be mapped. Programs get less: they cannot write the plan.
shim::Region* map_region(const std::string& path, bool writable);

// Directories of runs are called chainio-run.PID.XXXXXX; `chainio top` looks for them in the same places.
std::vector<std::string> run_directories_in(const std::string& base);
std::vector<std::string> run_bases();
// What killed runs have left in the base that RegionFile::create() looks into only when it needs that: others may keep
// so much there that to read its names takes long.
void remove_left_overs_in_last_base();

}  // namespace chainio::shadow
