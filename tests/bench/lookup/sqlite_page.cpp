#include "tests/bench/lookup/sqlite_page.h"

#include <optional>

namespace chainio::bench {
namespace {

using Bytes = std::span<const std::uint8_t>;
constexpr std::uint8_t table_interior = 5, table_leaf = 13;

std::uint32_t be16(Bytes page, std::size_t at) { return std::uint32_t{page[at]} << 8 | page[at + 1]; }
std::uint32_t be32(Bytes page, std::size_t at) { return be16(page, at) << 16 | be16(page, at + 2); }

// SQLite's varint: seven bits a byte, most significant first; a ninth byte gives all eight.
std::optional<std::uint64_t> varint(Bytes bytes, std::size_t& at) {
    std::uint64_t value = 0;
    for (int i = 0; i < 9; i++) {
        if (at >= bytes.size()) return std::nullopt;
        const std::uint8_t byte = bytes[at++];
        if (i == 8) return value << 8 | byte;
        value = value << 7 | (byte & 0x7fU);
        if (byte < 0x80) return value;
    }
    return std::nullopt;
}

std::uint64_t column_bytes(std::uint64_t serial) {
    constexpr std::uint64_t fixed[] = {0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0};
    return serial < 12 ? fixed[serial] : (serial - 12) / 2;
}

// The first cell whose rowid is at least the wanted one, and that rowid.
struct Found {
    std::uint32_t index;
    std::size_t body;  // behind the cell's rowid
    std::uint64_t size, rowid;
};
std::optional<Found> lower_bound(Bytes page, std::size_t array, std::uint32_t cells, bool leaf, std::uint64_t rowid) {
    Found best{cells, 0, 0, 0};
    std::uint32_t low = 0, high = cells;
    while (low < high) {
        const std::uint32_t middle = (low + high) / 2;
        std::size_t at = be16(page, array + 2 * std::size_t{middle}) + (leaf ? 0U : 4U);
        const auto size = leaf ? varint(page, at) : std::optional<std::uint64_t>{0};
        const auto key = varint(page, at);
        if (!size || !key) return std::nullopt;
        if (*key < rowid) {
            low = middle + 1;
        } else {
            high = middle;
            best = {middle, at, *size, *key};
        }
    }
    return best;
}

}  // namespace

Bytes last_column(Bytes record) {
    std::size_t at = 0;
    const auto header = varint(record, at);
    if (!header || *header > record.size()) return {};
    std::size_t body = *header, size = 0;
    while (at < *header) {
        const auto serial = varint(record, at);
        if (!serial) return {};
        body += size;
        size = column_bytes(*serial);
        if (size > record.size() || body > record.size() - size) return {};
    }
    return record.subspan(body, size);
}

Descent descend(Bytes page, std::uint32_t number, std::uint64_t rowid) {
    constexpr Descent malformed{Descent::Kind::malformed};
    const std::size_t start = number == 1 ? 100 : 0;
    const bool leaf = page[start] == table_leaf;
    if (!leaf && page[start] != table_interior) return malformed;
    const std::uint32_t cells = be16(page, start + 3);
    const std::size_t array = start + (leaf ? 8 : 12);
    if (array + 2 * std::size_t{cells} > page.size()) return malformed;
    const auto found = lower_bound(page, array, cells, leaf, rowid);
    if (!found) return malformed;
    if (!leaf) {
        if (found->index == cells) return {Descent::Kind::child, be32(page, start + 8)};
        const std::size_t cell = be16(page, array + 2 * std::size_t{found->index});
        if (cell + 4 > page.size()) return malformed;
        return {Descent::Kind::child, be32(page, cell)};
    }
    if (found->index == cells || found->rowid != rowid) return {Descent::Kind::missing};
    if (found->size > page.size() || found->body > page.size() - found->size) return malformed;
    return {Descent::Kind::found, 0, last_column(page.subspan(found->body, found->size))};
}

}  // namespace chainio::bench
