// Where the items of a new store come from.
#pragma once
#include <cstdint>
#include <expected>
#include <memory>
#include <string>
#include <string_view>

namespace chainio::store {

struct Row {
    std::string_view key, value;  // stay until the next row
    std::uint32_t flags = 0;
    std::uint64_t number = 0;  // of the line or row, from 1 on
};

struct Problem {
    std::string text;  // place, cause, remedy
    bool system = false;
    bool last = false;  // nothing behind it can be read
};

class Source {
  public:
    virtual ~Source() = default;
    // False at the end. After a problem that is not the last one, the next row can be asked for.
    virtual std::expected<bool, Problem> next(Row& row) = 0;
    // "data.tsv:7"
    virtual std::string place(std::uint64_t number) const = 0;
    // What was read whole and may be meant otherwise; empty when nothing may.
    virtual std::string note() const { return {}; }
};

// Lines KEY, tab, VALUE and perhaps tab, FLAGS; \t \n \r \0 \\ and \xHH stand for what cannot. "-" reads standard
// input. The last line of a file may lack its line feed; that of a pipe may not.
std::expected<std::unique_ptr<Source>, Problem> open_tsv(const std::string& path);
// A table with the columns key, value and perhaps flags, or a query with two or three columns.
std::expected<std::unique_ptr<Source>, Problem> open_sqlite(const std::string& path, const std::string& table,
                                                            const std::string& query);

// Bytes of the input in a message: what cannot be printed as \xHH, and a backslash too unless it is `verbatim`.
std::string shown(std::string_view bytes, bool verbatim = false);

// What is wrong with the sizes of a key and a value; empty when nothing is.
std::string wrong_sizes(std::size_t key, std::size_t value);

}  // namespace chainio::store
