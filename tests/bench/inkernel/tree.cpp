#include "tests/bench/inkernel/tree.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "tests/bench/lookup/os.h"

namespace chainio::bench {
namespace {

constexpr unsigned kKeys = 23, kOfLeaf = 4;
constexpr std::size_t kValue = 32;
constexpr std::uint32_t kLeaf = 1;

struct Page {
    std::uint32_t kind, count;
    std::uint64_t keys[kKeys];
    std::uint64_t children[kKeys];
    std::uint8_t values[kOfLeaf][kValue];
    std::uint64_t unused;
};
static_assert(sizeof(Page) == kTreePage);

std::array<std::uint64_t, kValue / 8> value_of(std::uint64_t rank) {
    std::array<std::uint64_t, kValue / 8> value{};
    for (std::size_t i = 0; i < value.size(); i++) value[i] = (rank + 1) * (2 * i + 0x9e3779b97f4a7c15);
    return value;
}

// Page `index` of a level whose pages stand for `ranks` keys each; the next level begins with page `next_level`.
Page interior_page(std::uint64_t index, std::uint64_t ranks, unsigned fanout, std::uint64_t next_level) {
    Page page{};
    page.count = fanout;
    for (unsigned i = 0; i < fanout; i++) {
        page.keys[i] = tree_key(index * ranks + i * (ranks / fanout));
        page.children[i] = next_level + index * fanout + i;
    }
    return page;
}

Page leaf_page(std::uint64_t index) {
    Page page{};
    page.kind = kLeaf;
    page.count = kOfLeaf;
    for (unsigned i = 0; i < kOfLeaf; i++) {
        page.keys[i] = tree_key(index * kOfLeaf + i);
        std::memcpy(page.values[i], value_of(index * kOfLeaf + i).data(), kValue);
    }
    return page;
}

}  // namespace

std::uint64_t TreeShape::keys() const {
    std::uint64_t leaves = 1;
    for (unsigned level = 1; level < depth; level++) leaves *= fanout;
    return leaves * kOfLeaf;
}

TreeShape shape_of(unsigned depth) { return {depth, depth > 6 ? 2U : 8U}; }

std::uint64_t tree_key(std::uint64_t rank) { return 7 * rank + 3; }

std::uint64_t tree_value_hash(std::uint64_t rank) {
    const auto value = value_of(rank);
    return hash_value({reinterpret_cast<const std::uint8_t*>(value.data()), kValue});
}

std::expected<void, std::string> write_tree(const std::string& path, TreeShape shape) {
    std::vector<Page> pages;
    std::uint64_t of_level = 1, ranks = shape.keys(), next_level = 1;
    for (unsigned level = 1; level < shape.depth; level++, of_level *= shape.fanout, ranks /= shape.fanout) {
        next_level += of_level;
        for (std::uint64_t i = 0; i < of_level; i++) pages.push_back(interior_page(i, ranks, shape.fanout, next_level));
    }
    for (std::uint64_t i = 0; i < of_level; i++) pages.push_back(leaf_page(i));
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return std::unexpected(errno_text(path));
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(pages.data());
    const std::size_t size = pages.size() * sizeof(Page);
    std::size_t written = 0;
    ssize_t got = 1;
    for (; written < size && got > 0; written += static_cast<std::size_t>(std::max<ssize_t>(got, 0)))
        got = ::write(fd, bytes + written, size - written);
    const bool good = written == size && ::fsync(fd) == 0;
    const std::string why = good ? "" : errno_text(path + " cannot be written");
    ::close(fd);
    if (!good) return std::unexpected(why);
    return {};
}

Descent descend_tree(std::span<const std::uint8_t> bytes, std::uint32_t, std::uint64_t key) {
    const auto& page = *reinterpret_cast<const Page*>(bytes.data());  // buffers are aligned
    if (bytes.size() != sizeof page || page.count > kKeys || page.kind > kLeaf) return {Descent::Kind::malformed};
    const std::uint64_t* end = page.keys + page.count;
    if (page.kind == kLeaf) {
        const std::uint64_t* found = std::lower_bound(page.keys, end, key);
        const auto i = static_cast<std::size_t>(found - page.keys);
        if (found == end || *found != key || i >= kOfLeaf) return {Descent::Kind::missing};
        return {Descent::Kind::found, 0, page.values[i]};
    }
    const auto i = static_cast<std::size_t>(std::upper_bound(page.keys, end, key) - page.keys);
    if (i == 0) return {Descent::Kind::missing};
    return {Descent::Kind::child, static_cast<std::uint32_t>(page.children[i - 1])};
}

}  // namespace chainio::bench
