// Files that are written from front to back, and one that takes another's place only when it is whole.
#pragma once
#include <cstdint>
#include <expected>
#include <span>
#include <string>
#include <vector>

#include "tools/chainio/store/format.h"

namespace chainio::store {

using Done = std::expected<void, std::string>;

std::string system_text(const std::string& what);  // with the text of errno
Done write_at(int fd, std::span<const std::uint8_t> bytes, std::uint64_t at);
// All of them; what is behind the file's end is an error as well.
Done read_at(int fd, std::span<std::uint8_t> bytes, std::uint64_t at);
// Whether the header is there, for what is shorter is no store; or why it cannot be read.
std::expected<bool, std::string> read_header(int fd, Header& header);

enum class Place : std::uint8_t { free, taken };

// A file without a name in the folder of the one that it will be: nobody sees it before commit(), and nothing is left
// of it when the program ends before that. (Where the file system makes no such files, it has a name of its own.)
class NewFile {
  public:
    // A link at `path` stays: what it leads to is replaced.
    static std::expected<NewFile, std::string> create(const std::string& path);
    NewFile(NewFile&& other) noexcept;
    NewFile& operator=(NewFile&&) = delete;
    NewFile(const NewFile&) = delete;
    ~NewFile();
    int fd() const { return fd_; }
    // With the rights of the file that it replaces; what of them it could not be given, in words. Of a place that is
    // free nothing is replaced: what came there meanwhile stays.
    std::expected<std::vector<std::string>, std::string> commit(Place place);
    // Another one, in the same folder: gone with its descriptor.
    std::expected<int, std::string> scratch() const;

  private:
    NewFile(int fd, std::string name, std::string path) : fd_(fd), name_(std::move(name)), path_(std::move(path)) {}
    void remove_name();
    int fd_;
    std::string name_, path_;  // what it is called now, or nothing, and then
};

// Opens a regular file to read it; of another kind, nothing is waited for.
struct OpenFailure {
    std::string text;
    bool missing = false, system = false;
};
std::expected<int, OpenFailure> open_regular(const std::string& path);

// Collects what is written one behind the other into large pieces.
class Writer {
  public:
    Writer(int fd, std::uint64_t at) : fd_(fd), flushed_(at) { pending_.reserve(kPending); }
    std::uint64_t position() const { return flushed_ + pending_.size(); }
    Done add(std::span<const std::uint8_t> bytes);
    void pad(std::uint64_t unit);  // with zeros, to a multiple
    Done flush();

  private:
    static constexpr std::size_t kPending = std::size_t{1} << 20;
    int fd_;
    std::uint64_t flushed_;
    std::vector<std::uint8_t> pending_;
};

}  // namespace chainio::store
