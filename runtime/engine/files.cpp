#include "runtime/engine/files.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "runtime/engine/alignment.h"
#include "runtime/spec/outcomes.h"

namespace chainio::engine {
namespace {

FileError system_error(const std::string& what = "") {
    const int error = errno;
    return {error, what + std::strerror(error)};
}

class Fd {
  public:
    explicit Fd(int fd) : fd_(fd) {}
    ~Fd() {
        if (fd_ >= 0) close(fd_);
    }
    Fd(const Fd&) = delete;
    Fd& operator=(const Fd&) = delete;
    int get() const { return fd_; }
    int give() {
        const int fd = fd_;
        fd_ = -1;
        return fd;
    }

  private:
    int fd_;
};

std::expected<std::uint64_t, FileError> size_of(int fd, const struct stat& info) {
    if (S_ISREG(info.st_mode)) return static_cast<std::uint64_t>(info.st_size);
    if (S_ISDIR(info.st_mode)) return std::unexpected(FileError{EISDIR, "it is a directory"});
    std::uint64_t bytes = 0;
    if (S_ISBLK(info.st_mode) && ioctl(fd, BLKGETSIZE64, &bytes) == 0) return bytes;
    return std::unexpected(FileError{ENODEV, "it is neither a regular file nor a block device"});
}

// An overlay takes the flag whatever lies below it; only a read is refused where that has no O_DIRECT.
bool takes_direct_reads(int fd) {
    alignas(kSafeAlignment.memory) std::array<std::uint8_t, kSafeAlignment.offset> block;
    return pread(fd, block.data(), block.size(), 0) >= 0 || errno != EINVAL;
}

// Turns on O_DIRECT and finds the alignment it asks for. Where the file system has none, the file stays buffered
// (noted).
void make_direct(OpenedFile& file, metrics::Fallbacks& fallbacks) {
    const auto told = direct_alignment(file.fd);
    if (!told) {
        fallbacks.note(
            "direct-alignment",
            "the file system, or a kernel before Linux 6.1, does not tell the alignment of O_DIRECT (statx); "
            "4096 is used");
    }
    const Alignment align = told.value_or(kSafeAlignment);
    file.offset_align = align.offset;
    file.memory_align = align.memory;
    const int flags = fcntl(file.fd, F_GETFL);
    if (file.offset_align != 0 && file.offset_align <= 65536 && file.memory_align <= 65536 && flags >= 0 &&
        fcntl(file.fd, F_SETFL, flags | O_DIRECT) == 0) {
        file.direct = told || takes_direct_reads(file.fd);
        file.memory_align = std::max(file.memory_align, 1u);
        if (file.direct) return;
        fcntl(file.fd, F_SETFL, flags);
    }
    fallbacks.note("not-direct", "'" + file.path + "' is read through the page cache: its file system has no O_DIRECT");
    file.offset_align = file.memory_align = 1;
}

std::expected<std::vector<std::uint8_t>, FileError> read_first(int fd, std::uint32_t bytes) {
    std::vector<std::uint8_t> buffer(bytes);
    std::size_t at = 0;
    while (at < buffer.size()) {
        const ssize_t got = pread(fd, buffer.data() + at, buffer.size() - at, static_cast<off_t>(at));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return std::unexpected(system_error("its header cannot be read: "));
        if (got == 0) break;
        at += static_cast<std::size_t>(got);
    }
    buffer.resize(at);
    return buffer;
}

std::string in_bytes(std::uint64_t count) { return std::to_string(count) + (count == 1 ? " byte" : " bytes"); }

// Where the header says how long the file is, a shorter one would be opened, and every request for what it lacks fail.
std::string cut_short(const ir::FileClass& declared, const OpenedFile& file) {
    const auto at = std::ranges::find(declared.header_fields, ir::kFileSizeName);
    if (at == declared.header_fields.end()) return {};
    const std::uint64_t wanted = file.header[static_cast<std::size_t>(at - declared.header_fields.begin())];
    if (file.size >= wanted) return {};
    return "it has " + in_bytes(file.size) + ", and by its header it has to have " + std::to_string(wanted) +
           ": it was cut short; copy it or make it again";
}

}  // namespace

std::expected<std::vector<std::uint64_t>, std::string> run_header(const spec::Loaded& spec, std::uint32_t file_class,
                                                                  std::span<const std::uint8_t> first_bytes) {
    const ir::FileClass& declared = spec.module().files[file_class];
    const ir::IoLayout& layout = spec.artifact().layout;
    // 64-bit words, so that the io block is aligned as its struct wants.
    std::vector<std::uint64_t> memory((std::max<std::size_t>(layout.total, sizeof(cio_io)) + CIO_PAD + 7) / 8);
    std::vector<std::uint8_t> block(first_bytes.begin(), first_bytes.end());
    block.resize(block.size() + CIO_PAD);
    auto* io = reinterpret_cast<cio_io*>(memory.data());
    io->block_length = static_cast<std::uint32_t>(first_bytes.size());
    spec.run(static_cast<std::uint32_t>(declared.header_program), *io, block.data());
    if (io->outcome != CIO_OK) return std::unexpected(spec::outcome_name(io->outcome, spec.module().reasons));
    std::vector<std::uint64_t> fields(declared.header_fields.size());
    if (io->out_length < fields.size() * sizeof(std::uint64_t) || io->out_length > layout.out_size) {
        return std::unexpected(std::string("its header program gave fewer fields than the record has"));
    }
    std::memcpy(fields.data(), reinterpret_cast<std::uint8_t*>(io) + layout.out_offset,
                fields.size() * sizeof(std::uint64_t));
    return fields;
}

void let_reads_wait(int fd) {
    const int flags = fcntl(fd, F_GETFL);
    if (flags >= 0) fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
}

std::expected<OpenedFile, FileError> open_class_file(const spec::Loaded& spec, std::uint32_t file_class,
                                                     const std::string& path, OpenMode mode,
                                                     metrics::Fallbacks& fallbacks) {
    const ir::FileClass& declared = spec.module().files[file_class];
    const auto refused = [&](const FileError& why) {
        return std::unexpected(
            FileError{why.system, "file '" + path + "' for class '" + declared.name + "': " + why.message});
    };
    const auto wrong = [&](const std::string& why) { return refused({0, why}); };
    Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
    if (fd.get() < 0) return refused(system_error());
    OpenedFile file;
    if (fstat(fd.get(), &file.as_opened) != 0) return refused(system_error());
    auto size = size_of(fd.get(), file.as_opened);
    if (!size) return refused(size.error());
    file.fd = fd.get();
    file.file_class = file_class;
    file.size = *size;
    file.path = path;
    if (declared.header_program >= 0) {
        auto first = read_first(fd.get(), std::min<std::uint32_t>(declared.header_bytes, CIO_MAX_BLOCK));
        if (!first) return refused(first.error());
        auto header = run_header(spec, file_class, *first);
        if (!header && first->empty()) return wrong("it is empty, and the spec declares a header of it");
        if (!header && first->size() < declared.header_bytes) {
            return wrong("it has " + in_bytes(first->size()) + ", and its header takes " +
                         std::to_string(declared.header_bytes) + " (short_read)");
        }
        if (!header) {
            return wrong("its first " + std::to_string(first->size()) +
                         " bytes are not the header that the spec declares (" + header.error() + ")");
        }
        file.header = std::move(*header);
        if (const std::string problem = cut_short(declared, file); !problem.empty()) return wrong(problem);
    }
    const bool want_direct = mode == OpenMode::direct || (mode == OpenMode::as_declared && declared.direct);
    let_reads_wait(fd.get());
    if (want_direct) make_direct(file, fallbacks);
    if (declared.no_read_ahead && !file.direct) posix_fadvise(fd.get(), 0, 0, POSIX_FADV_RANDOM);
    fd.give();
    return file;
}

}  // namespace chainio::engine
