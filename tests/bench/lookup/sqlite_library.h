// SQLite's own library, as RAII.
#pragma once
#include <sqlite3.h>

#include <cstdint>
#include <expected>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace chainio::bench {

struct CloseDatabase {
    void operator()(sqlite3* db) const { sqlite3_close(db); }
};
struct FinalizeStatement {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Database = std::unique_ptr<sqlite3, CloseDatabase>;
using Statement = std::unique_ptr<sqlite3_stmt, FinalizeStatement>;

std::expected<Database, std::string> open_database(const std::string& path, const char* vfs);
std::expected<Statement, std::string> prepare(sqlite3* db, const std::string& sql);

struct TableFacts {
    std::uint32_t root = 0, page_size = 0;
    std::uint64_t rows = 0;
};
std::expected<TableFacts, std::string> facts_of(const std::string& path);

// xxh64 of the value of each key through the page cache, which is dropped afterwards; 0 where there is none.
std::expected<std::vector<std::uint64_t>, std::string> expected_hashes(const std::string& path,
                                                                       std::span<const std::uint64_t> keys);

}  // namespace chainio::bench
