#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "tools/chainio/escapes.h"
#include "tools/chainio/store/format.h"
#include "tools/chainio/store/source.h"

namespace chainio::store {
namespace {

using tool::unescape;

constexpr std::size_t kRead = std::size_t{1} << 20;
// Every byte of the longest item as \xHH, and room to spare.
constexpr std::size_t kMostLine = 4 * (kMaxKey + kMaxValue) + 64;
constexpr std::size_t kMostBuffer = kMostLine + kRead;

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr std::size_t kLooked = 4;  // bytes of a text's begin that say how it is coded

// Its mark and a character of ASCII, as PowerShell writes texts. A key of these bytes would be written with escapes.
bool is_utf16(std::string_view begin) {
    if (begin.size() < kLooked) return false;
    const bool little = begin.starts_with("\xff\xfe") && begin[2] != '\0' && begin[3] == '\0';
    return little || (begin.starts_with("\xfe\xff") && begin[2] == '\0' && begin[3] != '\0');
}

bool is_file(int fd) {
    struct stat status{};
    return fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

class Tsv : public Source {
  public:
    Tsv(int fd, std::string name) : fd_(fd), is_file_(is_file(fd)), name_(std::move(name)), buffer_(2 * kRead) {}
    Tsv(const Tsv&) = delete;
    Tsv& operator=(const Tsv&) = delete;
    ~Tsv() override {
        if (fd_ > STDIN_FILENO) close(fd_);
    }

    std::string place(std::uint64_t number) const override { return fmt::format("{}:{}", name_, number); }

    std::string note() const override {
        if (returns_ == 0 || returns_ != number_) return {};
        return fmt::format(
            "{}: each line ends with a carriage return, as in texts of Windows; it is a part of each value now: where "
            "it is not meant to be, leave it out, as by tr -d '\\r'",
            name_);
    }

    std::expected<bool, Problem> next(Row& row) override {
        std::string_view line;
        const auto there = next_line(line);
        if (!there || !*there) return there;
        if (auto wrong = parse(line, row); !wrong.empty())
            return std::unexpected(Problem{place(number_) + ": " + wrong, false, false});
        row.number = number_;
        return true;
    }

  private:
    std::expected<bool, Problem> next_line(std::string_view& line) {
        while (true) {
            const char* from = buffer_.data() + begin_;
            if (const void* end = std::memchr(from + looked_, '\n', end_ - begin_ - looked_); end != nullptr) {
                line = {from, static_cast<std::size_t>(static_cast<const char*>(end) - from)};
                begin_ += line.size() + 1;
                looked_ = 0;
                number_++;
                return true;
            }
            looked_ = end_ - begin_;
            if (looked_ > kMostLine) {
                return std::unexpected(Problem{
                    fmt::format("{}: the line is longer than any item can be; keys have 1 to {} bytes, values up to {}",
                                place(number_ + 1), kMaxKey, kMaxValue),
                    false, true});
            }
            if (at_end_) return unended_line(line);
            if (auto read = fill(); !read) return std::unexpected(read.error());
        }
    }

    // What is behind the last line feed. A pipe ends in the same way whether its writer has ended or was ended: that
    // the text stops within a line is all that tells.
    std::expected<bool, Problem> unended_line(std::string_view& line) {
        if (looked_ == 0) return false;
        number_++;
        if (!is_file_) {
            return std::unexpected(
                Problem{fmt::format("{}: there is no line feed at the end, as where what writes the text was ended "
                                    "before its time; see that it ends well, or write one there",
                                    place(number_)),
                        false, true});
        }
        line = {buffer_.data() + begin_, std::exchange(looked_, 0)};
        if (returns_ != 0 && !line.ends_with('\r')) returns_++;  // what lacks its end does not say how lines end
        begin_ = end_;
        return true;
    }

    std::expected<void, Problem> fill() {
        if (begin_ != 0) std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
        end_ -= begin_;
        begin_ = 0;
        // Only a line that is longer than kRead gets here.
        if (buffer_.size() - end_ < kRead) buffer_.resize(std::min(2 * buffer_.size(), kMostBuffer));
        do {
            const ssize_t got = read(fd_, buffer_.data() + end_, buffer_.size() - end_);
            if (got < 0 && errno == EINTR) continue;
            if (got < 0)
                return std::unexpected(
                    Problem{fmt::format("{}: cannot be read: {}", name_, std::strerror(errno)), true, true});
            at_end_ = got == 0;
            end_ += static_cast<std::size_t>(got);
        } while (at_begin_ && !at_end_ && end_ < kLooked);
        if (!std::exchange(at_begin_, false)) return {};
        if (is_utf16({buffer_.data(), end_})) {
            return std::unexpected(Problem{
                fmt::format("{}: the text is in UTF-16; give it in UTF-8, as `iconv -f UTF-16 -t UTF-8` makes it",
                            name_),
                false, true});
        }
        leave_out_mark();
        return {};
    }

    // Some programs begin UTF-8 text with it; it is not of the first key.
    void leave_out_mark() {
        if (std::string_view(buffer_.data(), end_).starts_with(kByteOrderMark)) begin_ = kByteOrderMark.size();
    }

    std::string parse(std::string_view line, Row& row) {
        if (line.ends_with('\r')) returns_++;
        const std::size_t first = line.find('\t');
        if (first == std::string_view::npos) {
            return line.empty() ? "the line is empty; every line is KEY, a tab, VALUE and perhaps a tab and FLAGS"
                                : "there is no tab; every line is KEY, a tab, VALUE and perhaps a tab and FLAGS";
        }
        const std::size_t second = std::min(line.find('\t', first + 1), line.size());
        if (auto wrong = unescape(line.substr(0, first), key_)) return escape_text("key", *wrong);
        if (auto wrong = unescape(line.substr(first + 1, second - first - 1), value_))
            return escape_text("value", *wrong);
        row.flags = 0;
        if (second < line.size()) {
            const std::string_view flags = line.substr(second + 1);
            const auto read = std::from_chars(flags.data(), flags.data() + flags.size(), row.flags);
            if (flags.empty() || read.ec != std::errc{} || read.ptr != flags.data() + flags.size()) {
                return fmt::format(
                    "'{}' is no number from 0 to 4294967295, which the third column holds; {}", shown(flags),
                    flags.ends_with('\r') ? "a carriage return at the end of a line belongs to it: leave it out"
                                          : "write a tab in a value as \\t");
            }
        }
        row.key = key_;
        row.value = value_;
        return wrong_sizes(key_.size(), value_.size());
    }

    static std::string escape_text(const char* what, const std::string& escape) {
        return fmt::format("'{}' in the {} means nothing; there are \\t \\n \\r \\0 \\\\ and \\xHH",
                           shown(escape, true), what);
    }

    int fd_;
    bool is_file_;
    std::string name_, key_, value_;
    std::vector<char> buffer_;
    std::size_t begin_ = 0, end_ = 0, looked_ = 0;
    std::uint64_t number_ = 0, returns_ = 0;
    bool at_begin_ = true, at_end_ = false;
};

}  // namespace

std::string shown(std::string_view bytes, bool verbatim) {
    std::string out;
    for (const char c : bytes.substr(0, 60)) {
        if (c >= ' ' && c <= '~' && (c != '\\' || verbatim))
            out += c;
        else
            out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
    return bytes.size() > 60 ? out + "…" : out;
}

std::string wrong_sizes(std::size_t key, std::size_t value) {
    if (key == 0) return fmt::format("the key is empty; keys have 1 to {} bytes", kMaxKey);
    if (key > kMaxKey) return fmt::format("the key has {} bytes; keys have 1 to {}", key, kMaxKey);
    if (value > kMaxValue) {
        return fmt::format("the value has {} bytes; values have at most {}: divide it over several keys", value,
                           kMaxValue);
    }
    return {};
}

std::expected<std::unique_ptr<Source>, Problem> open_tsv(const std::string& path) {
    if (path == "-") return std::make_unique<Tsv>(STDIN_FILENO, "standard input");
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return std::unexpected(
            Problem{fmt::format("{}: cannot be opened: {}", path, std::strerror(errno)), true, true});
    return std::make_unique<Tsv>(fd, path);
}

}  // namespace chainio::store
