// A VFS that gives SQLite's own library the same device reads as everyone: O_DIRECT, whole pages, nothing else.
#pragma once
#include <cstdint>

namespace chainio::bench {

constexpr const char* direct_vfs_name = "chainio-direct";

// Registers the VFS with SQLite once; files are opened read-only and taken to be immutable.
void register_direct_vfs();

// Reads that the VFS has done on behalf of this process.
std::uint64_t direct_vfs_reads();

}  // namespace chainio::bench
