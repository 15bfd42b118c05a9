#include "tools/chainc/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "tools/rights/rights.h"

namespace chainio::chainc {
namespace {

class Descriptor {
  public:
    explicit Descriptor(int fd) : fd_(fd) {}
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    ~Descriptor() {
        if (fd_ > 2) ::close(fd_);
    }
    int get() const { return fd_; }
    // Errors of delayed writes (a full disk on a network file system) appear here.
    bool close() { return ::close(std::exchange(fd_, -1)) == 0; }

  private:
    int fd_;
};

std::string reason(int error) { return std::strerror(error); }

std::unexpected<ReadError> read_failed(int error) {
    return std::unexpected(ReadError{error == ENOENT || error == ENOTDIR, reason(error)});
}

std::unexpected<WriteError> write_failed(int error) { return std::unexpected(WriteError{reason(error), error}); }

bool write_all(int fd, std::span<const std::uint8_t> bytes) {
    while (!bytes.empty()) {
        const ssize_t n = ::write(fd, bytes.data(), bytes.size());
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return false;
        bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
    return true;
}

Written write_directly(int fd, std::span<const std::uint8_t> bytes) {
    if (fd < 0 || !write_all(fd, bytes)) return write_failed(errno);
    return {};
}

// With what it is to hold, and the rights of the file that it replaces: it takes no place without them.
Written fill(int fd, const std::string& path, std::span<const std::uint8_t> bytes) {
    if (!write_all(fd, bytes)) return write_failed(errno);
    auto taken = tool::take_over_rights(fd, path);
    if (!taken) return std::unexpected(WriteError{std::move(taken.error())});
    return std::move(*taken);
}

Written replace(const std::string& path, std::span<const std::uint8_t> bytes) {
    std::string temporary = path + ".XXXXXX";
    Descriptor file(::mkostemp(temporary.data(), O_CLOEXEC));
    if (file.get() < 0) return write_failed(errno);
    auto done = fill(file.get(), path, bytes);
    if (done && (!file.close() || ::rename(temporary.c_str(), path.c_str()) != 0)) done = write_failed(errno);
    if (!done) ::unlink(temporary.c_str());
    return done;
}

// "-" and the names of open descriptors: these are written to where they stand (after `>>`, say), not opened anew.
int named_descriptor(std::string_view path) {
    if (path == "-" || path == "/dev/stdout") return 1;
    if (path == "/dev/stderr") return 2;
    for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/"}) {
        if (!path.starts_with(folder)) continue;
        const std::string_view digits = path.substr(folder.size());
        int fd = -1;
        const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), fd);
        if (error == std::errc{} && end == digits.data() + digits.size()) return fd;
    }
    return -1;
}

}  // namespace

bool is_descriptor(std::string_view path) { return named_descriptor(path) >= 0; }

std::expected<std::string, ReadError> read_source(const std::string& name) {
    const bool is_stdin = name == "-";
    Descriptor file(is_stdin ? 0 : ::open(name.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.get() < 0) return read_failed(errno);
    std::string text;
    std::size_t filled = 0;
    while (filled < most_read) {
        text.resize(filled + 64 * 1024);
        const ssize_t n = ::read(file.get(), text.data() + filled, text.size() - filled);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return read_failed(errno);
        if (n == 0) break;
        filled += static_cast<std::size_t>(n);
    }
    text.resize(filled);
    return text;
}

Written write_output(const std::string& path, std::span<const std::uint8_t> bytes) {
    if (const int fd = named_descriptor(path); fd >= 0) return write_directly(fd, bytes);
    struct stat status{};
    const bool exists = ::stat(path.c_str(), &status) == 0;
    if (exists && S_ISDIR(status.st_mode)) return write_failed(EISDIR);
    if (exists && !S_ISREG(status.st_mode)) {
        Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
        return write_directly(file.get(), bytes);
    }
    if (!exists) return replace(path, bytes);
    // A link stays a link: what it names is replaced.
    std::error_code error;
    const std::filesystem::path target = std::filesystem::canonical(path, error);
    if (error) return std::unexpected(WriteError{error.message(), error.value()});
    return replace(target.string(), bytes);
}

Written write_output(const std::string& path, std::string_view text) {
    return write_output(path, std::span(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()));
}

std::string remedy_of(const WriteError& error, const std::string& otherwise, bool goes_elsewhere) {
    std::string remedy;
    switch (error.number) {
        case ENOSPC:
        case EDQUOT: remedy = "free some space there"; break;
        case EFBIG: remedy = "allow larger files (`ulimit -f`)"; break;
        case EBADF: remedy = "open it for writing (`> FILE`)"; break;
        default: return otherwise;
    }
    return goes_elsewhere ? remedy + ", or " + otherwise : remedy;
}

void report_lost(diag::Diagnostics& diagnostics, const std::string& path, const std::vector<std::string>& lost) {
    for (const std::string& what : lost)
        diagnostics.report(509, {}, "`" + path + "` had what the file in its place could not be given: " + what,
                           "give it to the new one as a user who may");
}

void reserve_standard_descriptors() {
    for (int fd = 0; fd < 3; fd++) {
        if (::fcntl(fd, F_GETFD) >= 0) continue;
        // Reading from 0 and writing to 1 and 2 then fails with EBADF, which is reported as any other failure.
        if (::open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd) return;
    }
}

}  // namespace chainio::chainc
