// The lines of a file of keys, each of which is a run (`chainio call --keys`).
#pragma once
#include <cstddef>
#include <cstdint>
#include <expected>
#include <string>

#include "tools/chainio/run/files.h"

namespace chainio::tool {

struct UnreadKeys {
    std::string why;
    bool system;  // else the keys are wrong
};

class Keys {
  public:
    // `path`: - is standard input.
    static std::expected<Keys, UnreadKeys> open(const std::string& path);

    // Whether next() has something to give, be it the end, without waiting for whoever writes the keys.
    bool at_hand();
    // The next line, without its end; false: there is none.
    std::expected<bool, UnreadKeys> next(std::string& line);
    std::uint64_t number() const { return number_; }  // of the last line
    // Of the file that has been read; -1: nobody knows how long it is.
    int percent() const { return size_ <= 0 ? -1 : static_cast<int>(bytes_ * 100 / size_); }

  private:
    Keys(const std::string& path, int fd) : path_(path), fd_(fd) {}
    bool has_line();
    bool is_too_long() const;
    void fill();

    std::string path_;
    run::Descriptor opened_;  // but for standard input
    int fd_;
    std::string buffer_;
    std::size_t begin_ = 0;   // of what has not been given yet
    std::size_t looked_ = 0;  // bytes from there on in which no line ends
    bool at_end_ = false;
    int error_ = 0;  // why it could not be read any further, an errno
    std::uint64_t number_ = 0;
    std::int64_t bytes_ = 0, size_ = -1;
};

}  // namespace chainio::tool
