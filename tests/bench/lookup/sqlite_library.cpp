#include "tests/bench/lookup/sqlite_library.h"

#include <fcntl.h>
#include <unistd.h>

#include "tests/bench/lookup/contender.h"
#include "tests/bench/lookup/direct_vfs.h"
#include "tests/bench/lookup/os.h"

namespace chainio::bench {
namespace {

std::span<const std::uint8_t> column_bytes(sqlite3_stmt* row, int column) {
    const auto* bytes = static_cast<const std::uint8_t*>(sqlite3_column_blob(row, column));
    return {bytes, static_cast<std::size_t>(sqlite3_column_bytes(row, column))};
}

// The hash of one key's value.
std::expected<std::uint64_t, std::string> look_up(sqlite3* db, sqlite3_stmt* query, std::uint64_t key) {
    sqlite3_bind_int64(query, 1, static_cast<sqlite3_int64>(key));
    const int status = sqlite3_step(query);
    std::uint64_t hash = 0;
    if (status == SQLITE_ROW) hash = hash_value(column_bytes(query, 0));
    if (status != SQLITE_ROW && status != SQLITE_DONE)
        return std::unexpected(std::string("sqlite3: ") + sqlite3_errmsg(db));
    sqlite3_reset(query);
    return hash;
}

constexpr const char* query_text = "SELECT value FROM kv WHERE id = ?";

std::expected<std::uint64_t, std::string> number(sqlite3* db, const std::string& sql) {
    auto query = prepare(db, sql);
    if (!query) return std::unexpected(query.error());
    if (sqlite3_step(query->get()) != SQLITE_ROW) return std::unexpected(sql + ": " + sqlite3_errmsg(db));
    return static_cast<std::uint64_t>(sqlite3_column_int64(query->get(), 0));
}

void drop_page_cache(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    ::close(fd);
}

}  // namespace

std::expected<Database, std::string> open_database(const std::string& path, const char* vfs) {
    sqlite3* raw = nullptr;
    const std::string uri = "file:" + path + "?immutable=1";
    const int status =
        sqlite3_open_v2(uri.c_str(), &raw, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, vfs);
    Database db(raw);
    if (status != SQLITE_OK) return std::unexpected(path + ": " + sqlite3_errstr(status));
    return db;
}

std::expected<Statement, std::string> prepare(sqlite3* db, const std::string& sql) {
    sqlite3_stmt* raw = nullptr;
    if (sqlite3_prepare_v3(db, sql.c_str(), -1, SQLITE_PREPARE_PERSISTENT, &raw, nullptr) != SQLITE_OK) {
        return std::unexpected(sql + ": " + sqlite3_errmsg(db));
    }
    return Statement(raw);
}

std::expected<TableFacts, std::string> facts_of(const std::string& path) {
    auto db = open_database(path, nullptr);
    if (!db) return std::unexpected(db.error());
    const auto root = number(db->get(), "SELECT rootpage FROM sqlite_schema WHERE name = 'kv'");
    const auto page_size = number(db->get(), "PRAGMA page_size");
    const auto rows = number(db->get(), "SELECT max(id) FROM kv");
    for (const auto* value : {&root, &page_size, &rows}) {
        if (!*value) return std::unexpected(value->error());
    }
    return TableFacts{static_cast<std::uint32_t>(*root), static_cast<std::uint32_t>(*page_size), *rows};
}

std::expected<std::vector<std::uint64_t>, std::string> expected_hashes(const std::string& path,
                                                                       std::span<const std::uint64_t> keys) {
    auto db = open_database(path, nullptr);
    if (!db) return std::unexpected(db.error());
    auto query = prepare(db->get(), query_text);
    if (!query) return std::unexpected(query.error());
    std::vector<std::uint64_t> hashes;
    hashes.reserve(keys.size());
    for (const std::uint64_t key : keys) {
        const auto hash = look_up(db->get(), query->get(), key);
        if (!hash) return std::unexpected(hash.error());
        hashes.push_back(*hash);
    }
    query->reset();
    db->reset();
    drop_page_cache(path);
    return hashes;
}

Result run_sqlite(const Job& job) {
    register_direct_vfs();
    auto db = open_database(job.db, direct_vfs_name);
    if (!db) return std::unexpected(db.error());
    // One read transaction around all lookups, as the others open the file once; the schema is read before the clock
    // starts.
    const std::string cache =
        "PRAGMA cache_size = " + (job.cache_bytes == 0 ? "1" : "-" + std::to_string(job.cache_bytes / 1024));
    if (sqlite3_exec(db->get(), (cache + "; BEGIN; SELECT count(*) FROM sqlite_schema").c_str(), nullptr, nullptr,
                     nullptr) != SQLITE_OK) {
        return std::unexpected(job.db + ": " + sqlite3_errmsg(db->get()));
    }
    auto query = prepare(db->get(), query_text);
    if (!query) return std::unexpected(query.error());
    Outcome outcome;
    outcome.value_hash.reserve(job.keys.size());
    outcome.latency_ns.reserve(job.keys.size());
    sqlite3_db_release_memory(db->get());
    const std::uint64_t reads_before = direct_vfs_reads();
    const std::uint64_t begin = now_ns();
    std::uint64_t lookup_begin = begin;
    for (const std::uint64_t key : job.keys) {
        const auto hash = look_up(db->get(), query->get(), key);
        if (!hash) return std::unexpected(hash.error());
        outcome.value_hash.push_back(*hash);
        if (job.cache_bytes == 0)
            sqlite3_db_release_memory(db->get());  // else the next lookup would find pages in memory
        const std::uint64_t end = now_ns();
        outcome.latency_ns.push_back(static_cast<std::uint32_t>(end - lookup_begin));
        lookup_begin = end;
    }
    outcome.seconds = static_cast<double>(lookup_begin - begin) / 1e9;
    outcome.reads = direct_vfs_reads() - reads_before;
    return outcome;
}

}  // namespace chainio::bench
