// Files that chains read: opened as their class says, their alignment known, their header record read and understood.
#pragma once
#include <sys/stat.h>

#include <cstdint>
#include <expected>
#include <span>
#include <string>
#include <vector>

#include "runtime/metrics/fallbacks.h"
#include "runtime/spec/loaded.h"

namespace chainio::engine {

enum class OpenMode : std::uint8_t { as_declared, direct, buffered };

struct OpenedFile {
    int fd = -1;
    std::uint32_t file_class = 0;
    bool direct = false;
    std::uint32_t offset_align = 1;  // of offsets and lengths
    std::uint32_t memory_align = 1;
    struct stat as_opened{};            // what it was before anything was read of it
    std::uint64_t size = 0;             // then, in bytes
    std::vector<std::uint64_t> header;  // the header record's scalar fields
    std::string path;
};

struct FileError {
    int system = 0;  // the errno of what the system refused; 0: its content is not what the class says
    std::string message;
};

// The descriptor in the result is the caller's to close.
std::expected<OpenedFile, FileError> open_class_file(const spec::Loaded& spec, std::uint32_t file_class,
                                                     const std::string& path, OpenMode mode,
                                                     metrics::Fallbacks& fallbacks);

// Of an open descriptor: takes O_NONBLOCK away, which keeps an open from waiting for a FIFO's writer or a lease. Reads
// of regular files and devices do without, but where a disk cannot begin one and let go of who asks (dm-crypt,
// dm-thin), kernels up to 6.4 have a ring's end with EAGAIN instead.
void let_reads_wait(int fd);

// Runs a class's header program over the first bytes of a file. The error names the outcome.
std::expected<std::vector<std::uint64_t>, std::string> run_header(const spec::Loaded& spec, std::uint32_t file_class,
                                                                  std::span<const std::uint8_t> first_bytes);

}  // namespace chainio::engine
