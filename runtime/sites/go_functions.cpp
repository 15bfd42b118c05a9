#include "runtime/sites/go_functions.h"

#include <cstring>

namespace chainio::sites {
namespace {

using Bytes = std::span<const std::uint8_t>;

constexpr std::uint32_t kMagic18 = 0xfffffff0, kMagic20 = 0xfffffff1;
constexpr std::uint64_t kMostFunctions = 1 << 22;

// 0 where there is nothing: no field that is asked for may be 0.
template <class T>
T at(Bytes bytes, std::uint64_t offset) {
    T value = 0;
    if (offset <= bytes.size() && sizeof value <= bytes.size() - offset)
        std::memcpy(&value, bytes.data() + offset, sizeof value);
    return value;
}

// The fields of the table's head, by where they are; each has 8 bytes.
constexpr std::uint64_t kCount = 8, kText = 24, kTable = 64;

// Newer ones leave the text's address to the module's description: a pointer to the table, six slices and a pointer
// come before the lowest address of a function, its highest, and the text's.
std::uint64_t text_of(const probe::ElfView& elf, const probe::Code& table) {
    if (const auto text = at<std::uint64_t>(table.bytes, kText); text != 0) return text;
    constexpr std::uint64_t kModuleText = 8 + 6 * 24 + 8 + 8 + 8;
    const Bytes module = elf.section(".go.module").bytes;
    return at<std::uint64_t>(module, 0) == table.address ? at<std::uint64_t>(module, kModuleText) : 0;
}

}  // namespace

std::vector<std::uint64_t> go_functions(const probe::ElfView& elf) {
    const probe::Code table = elf.section(".gopclntab");
    const auto magic = at<std::uint32_t>(table.bytes, 0);
    const std::uint64_t text = text_of(elf, table), count = at<std::uint64_t>(table.bytes, kCount);
    if ((magic != kMagic18 && magic != kMagic20) || text == 0 || count == 0 || count > kMostFunctions) return {};
    // Pairs of a distance from the text's begin and something else, and the end of the last.
    constexpr std::uint64_t kPair = 8;
    const std::uint64_t pairs = at<std::uint64_t>(table.bytes, kTable);
    if (pairs > table.bytes.size() || (count * kPair) + sizeof(std::uint32_t) > table.bytes.size() - pairs) return {};
    std::vector<std::uint64_t> out;
    out.reserve(count + 1);
    for (std::uint64_t i = 0; i <= count; i++) {
        const std::uint64_t address = text + at<std::uint32_t>(table.bytes, pairs + i * kPair);
        if (!out.empty() && address <= out.back()) return {};
        out.push_back(address);
    }
    return out;
}

}  // namespace chainio::sites
