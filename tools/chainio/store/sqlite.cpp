#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "compiler/diag/diag.h"
#include "tools/chainio/store/format.h"
#include "tools/chainio/store/source.h"

namespace chainio::store {
namespace {

constexpr int kMostRow = 64 << 20;  // SQLite allows a gigabyte by itself
constexpr int kPatienceMs = 5000;   // for others who write: a commit locks a database that has no WAL

struct Close {
    void operator()(sqlite3* db) const { sqlite3_close(db); }
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};

// Whether it is what the query asks for that cannot be done, as abs() of the least integer, and not the file or the
// system that fails.
bool is_of_query(int state) {
    const int primary = state & 0xff;
    return primary == SQLITE_ERROR || primary == SQLITE_TOOBIG || primary == SQLITE_MISMATCH ||
           primary == SQLITE_CONSTRAINT || primary == SQLITE_RANGE;
}

class Sqlite : public Source {
  public:
    Sqlite(std::unique_ptr<sqlite3, Close> db, std::unique_ptr<sqlite3_stmt, Close> rows, std::string name, bool utf16)
        : db_(std::move(db)), rows_(std::move(rows)), name_(std::move(name)), utf16_(utf16) {}

    std::string place(std::uint64_t number) const override { return fmt::format("{}: row {}", name_, number); }

    std::expected<bool, Problem> next(Row& row) override {
        const int state = sqlite3_step(rows_.get());
        if (state == SQLITE_DONE) return false;
        number_++;
        if (state != SQLITE_ROW)
            return std::unexpected(Problem{place(number_) + ": " + why_no_row(state), !is_of_query(state), true});
        if (auto wrong = take(row); !wrong.empty())
            return std::unexpected(Problem{place(number_) + ": " + wrong, false, false});
        row.number = number_;
        return true;
    }

  private:
    std::string why_no_row(int state) const {
        if ((state & 0xff) != SQLITE_TOOBIG) return sqlite3_errmsg(db_.get());
        return fmt::format(
            "the key, the value, or what the query makes them of has more than {} bytes; values have at most {}: "
            "divide it over several keys (rows behind this one were not looked at)",
            kMostRow, kMaxValue);
    }

    // The text of a UTF-16 database as UTF-8, which clients ask with; that of a UTF-8 one, and blobs, as they are.
    std::string bytes(int column, std::string_view name, std::string_view& out) {
        sqlite3_stmt* rows = rows_.get();
        const bool blob = sqlite3_column_type(rows, column) == SQLITE_BLOB;
        // SQLite makes other characters of half a pair and of what follows it, so one key could become another.
        if (!blob && utf16_ && !whole_pairs(column)) {
            return fmt::format(
                "the {} is no valid UTF-16: half of a surrogate pair stands alone; mend the row, leave it out, or take "
                "the bytes as they are with --query and CAST(… AS BLOB)",
                name);
        }
        const void* data = blob ? sqlite3_column_blob(rows, column) : sqlite3_column_text(rows, column);
        const auto length = static_cast<std::size_t>(sqlite3_column_bytes(rows, column));
        if (data == nullptr && !blob) return fmt::format("no memory for the {} as text", name);
        out = {static_cast<const char*>(data), data == nullptr ? 0 : length};
        return "";
    }

    bool whole_pairs(int column) {
        const auto* text = static_cast<const char16_t*>(sqlite3_column_text16(rows_.get(), column));
        const int units = text == nullptr ? 0 : sqlite3_column_bytes16(rows_.get(), column) / 2;
        bool open = false;
        for (int i = 0; i < units; i++) {
            const bool low = (text[i] & 0xfc00) == 0xdc00;
            if (low != open) return false;
            open = (text[i] & 0xfc00) == 0xd800;
        }
        return !open;
    }

    std::string take(Row& row) {
        for (const int column : {0, 1}) {
            if (sqlite3_column_type(rows_.get(), column) != SQLITE_NULL) continue;
            return fmt::format("the {} is NULL; leave such rows out with --query 'SELECT … WHERE … IS NOT NULL'",
                               column == 0 ? "key" : "value");
        }
        row.flags = 0;
        if (sqlite3_column_count(rows_.get()) > 2) {
            const std::int64_t flags = sqlite3_column_int64(rows_.get(), 2);
            if (sqlite3_column_type(rows_.get(), 2) != SQLITE_INTEGER || flags < 0 || flags > 0xffffffff)
                return "the flags are no integer from 0 to 4294967295, which the third column holds";
            row.flags = static_cast<std::uint32_t>(flags);
        }
        if (auto wrong = bytes(0, "key", row.key); !wrong.empty()) return wrong;
        if (auto wrong = bytes(1, "value", row.value); !wrong.empty()) return wrong;
        return wrong_sizes(row.key.size(), row.value.size());
    }

    std::unique_ptr<sqlite3, Close> db_;
    std::unique_ptr<sqlite3_stmt, Close> rows_;
    std::string name_;
    bool utf16_;
    std::uint64_t number_ = 0;
};

std::string quoted(const std::string& name) {
    std::string out = "\"";
    for (const char c : name) out += c == '"' ? std::string("\"\"") : std::string(1, c);
    return out + "\"";
}

// What a name of no table may have been meant for; empty when nothing is near it.
std::string meant_table(sqlite3* db, const std::string& table) {
    constexpr std::size_t kMostNames = 1000;
    sqlite3_stmt* statement = nullptr;
    sqlite3_prepare_v2(db, "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')", -1, &statement, nullptr);
    const std::unique_ptr<sqlite3_stmt, Close> rows(statement);
    std::vector<std::string> names;
    // A damaged schema may have rows without a name.
    while (names.size() < kMostNames && sqlite3_step(statement) == SQLITE_ROW)
        if (const auto* name = reinterpret_cast<const char*>(sqlite3_column_text(statement, 0)); name != nullptr)
            names.emplace_back(name);
    const auto near = diag::nearest(table, names);
    return near ? fmt::format("; did you mean '{}'?", *near) : "";
}

// The columns of a table or a view by their names; those that a query gives have a place instead.
std::expected<std::string, std::string> query_of(sqlite3* db, const std::string& table) {
    // A view has columns, too, which sqlite3_table_column_metadata() does not say.
    sqlite3_stmt* statement = nullptr;
    const int prepared =
        sqlite3_prepare_v2(db, "SELECT lower(name) FROM pragma_table_xinfo(?)", -1, &statement, nullptr);
    const std::unique_ptr<sqlite3_stmt, Close> names(statement);
    if (prepared != SQLITE_OK) return std::unexpected(sqlite3_errmsg(db));
    sqlite3_bind_text(statement, 1, table.c_str(), -1, SQLITE_STATIC);
    std::set<std::string> columns;
    int state = SQLITE_ROW;
    while ((state = sqlite3_step(statement)) == SQLITE_ROW)
        columns.emplace(reinterpret_cast<const char*>(sqlite3_column_text(statement, 0)));
    if (state != SQLITE_DONE) return std::unexpected(sqlite3_errmsg(db));
    const auto has = [&](const char* column) { return columns.contains(column); };
    if (columns.empty()) return std::unexpected(fmt::format("there is no table '{}'{}", table, meant_table(db, table)));
    if (!has("key") || !has("value")) {
        return std::unexpected(fmt::format(
            "table '{}' has no columns 'key' and 'value'; name its own with --query 'SELECT name, text FROM {}'", table,
            table));
    }
    return fmt::format("SELECT key, value{} FROM {}", has("flags") ? ", flags" : "", quoted(table));
}

std::expected<bool, std::string> has_utf16(sqlite3* db) {
    sqlite3_stmt* statement = nullptr;
    const int prepared = sqlite3_prepare_v2(db, "PRAGMA encoding", -1, &statement, nullptr);
    const std::unique_ptr<sqlite3_stmt, Close> encoding(statement);
    if (prepared != SQLITE_OK || sqlite3_step(statement) != SQLITE_ROW) return std::unexpected(sqlite3_errmsg(db));
    const auto* name = reinterpret_cast<const char*>(sqlite3_column_text(statement, 0));
    return name != nullptr && std::string_view(name).starts_with("UTF-16");
}

// Bytes 18 and 19 of a database are its file format's versions, and 2 is the one of the write-ahead log.
bool has_wal(const std::string& path) {
    char versions[2] = {};
    std::ifstream(path, std::ios::binary).seekg(18).read(versions, sizeof versions);
    return versions[0] == 2 && versions[1] == 2;
}

// SQLite names neither the file that it could not open or make nor what is in the way.
std::string why_unread(const std::string& path, sqlite3* db) {
    namespace fs = std::filesystem;
    std::error_code unknown;
    if (fs::is_directory(path, unknown)) return "is a directory, not an SQLite database; name a file in it";
    const int code = sqlite3_errcode(db) & 0xff, cause = sqlite3_system_errno(db);
    if (code == SQLITE_BUSY)
        return fmt::format("another program has it locked, for {} seconds by now; try again when that has written",
                           kPatienceMs / 1000);
    if (sqlite3_extended_errcode(db) == SQLITE_READONLY_ROLLBACK)
        return fmt::format(
            "a program ended while it wrote to the database, which SQLite has to undo in it before it is read; open it "
            "once as who may write to it, as with sqlite3 {} .tables",
            path);
    if (code == SQLITE_NOTADB)
        return "is no SQLite database, or an encrypted one; name the file of an SQLite database, or give lines of text "
               "by --from FILE";
    if (code != SQLITE_CANTOPEN && code != SQLITE_READONLY) return sqlite3_errmsg(db);
    if (fs::status(path, unknown).type() == fs::file_type::not_found)
        return "does not exist; name the file of an SQLite database";
    const std::string real = fs::canonical(path, unknown).string();
    const std::string folder = fs::path(real).parent_path().string();
    if (has_wal(path) && faccessat(AT_FDCWD, folder.c_str(), W_OK, AT_EACCESS) != 0)
        return fmt::format(
            "the database is in WAL mode, in which SQLite needs the file '{}-shm', and '{}' may not be written; run "
            "this as a user who may, or copy the database and its -wal file to a folder of yours while nobody writes "
            "to it",
            real, folder);
    if (code == SQLITE_READONLY) return sqlite3_errmsg(db);
    return fmt::format("cannot be opened: {}", cause != 0 ? std::strerror(cause) : sqlite3_errmsg(db));
}

}  // namespace

std::expected<std::unique_ptr<Source>, Problem> open_sqlite(const std::string& path, const std::string& table,
                                                            const std::string& query) {
    sqlite3* opened = nullptr;
    // Of a name alone, SQLite takes `:memory:` and what begins with `file:` for something else.
    const std::string file = path.starts_with('/') ? path : "./" + path;
    const int state = sqlite3_open_v2(file.c_str(), &opened, SQLITE_OPEN_READONLY, nullptr);
    std::unique_ptr<sqlite3, Close> db(opened);
    const auto failed = [&](const std::string& why, bool system) {
        return std::unexpected(Problem{fmt::format("{}: {}", path, why), system, true});
    };
    if (state != SQLITE_OK) return failed(db == nullptr ? "no memory" : why_unread(path, db.get()), true);
    sqlite3_limit(db.get(), SQLITE_LIMIT_LENGTH, kMostRow);
    sqlite3_busy_timeout(db.get(), kPatienceMs);
    if (sqlite3_exec(db.get(), "SELECT 1 FROM sqlite_schema", nullptr, nullptr, nullptr) != SQLITE_OK)
        return failed(why_unread(path, db.get()), true);
    const auto utf16 = has_utf16(db.get());
    if (!utf16) return failed(utf16.error(), true);
    std::string text = query;
    if (query.empty()) {
        auto made = query_of(db.get(), table);
        if (!made) return failed(made.error(), false);
        text = *made;
    }
    sqlite3_stmt* statement = nullptr;
    const char* rest = nullptr;
    const int prepared = sqlite3_prepare_v2(db.get(), text.c_str(), -1, &statement, &rest);
    std::unique_ptr<sqlite3_stmt, Close> rows(statement);
    if (prepared != SQLITE_OK) return failed(fmt::format("{}, in `{}`", sqlite3_errmsg(db.get()), text), false);
    // Blanks and comments prepare to no statement.
    sqlite3_stmt* second = nullptr;
    const bool nothing_follows = sqlite3_prepare_v2(db.get(), rest, -1, &second, nullptr) == SQLITE_OK && !second;
    const std::unique_ptr<sqlite3_stmt, Close> others(second);
    if (!nothing_follows)
        return failed(fmt::format("--query takes one statement, and `{}` would be left out", shown(rest)), false);
    if (rows != nullptr && sqlite3_stmt_readonly(rows.get()) == 0)
        return failed("--query would write to the database, which is read only; give one that reads: SELECT …", false);
    if (sqlite3_bind_parameter_count(rows.get()) != 0) {
        const char* name = sqlite3_bind_parameter_name(rows.get(), 1);
        return failed(fmt::format("nothing gives the parameter `{}` of the query a value; write the value there",
                                  name != nullptr ? name : "?"),
                      false);
    }
    const int columns = rows == nullptr ? 0 : sqlite3_column_count(rows.get());
    if (columns != 2 && columns != 3) {
        return failed(fmt::format("the query gives {} column{}; the key, the value and perhaps the flags are wanted",
                                  columns, columns == 1 ? "" : "s"),
                      false);
    }
    return std::make_unique<Sqlite>(std::move(db), std::move(rows), path, *utf16);
}

}  // namespace chainio::store
