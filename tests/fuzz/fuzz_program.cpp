// Any bytes as the file of a program that is about to be executed: what is said of it follows from the bytes that there
// are, and only an ELF file is judged. The first two bytes say how many of them are looked at.
#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "runtime/shim/program_head.h"

namespace {

using namespace chainio;
using shim::ProgramFile;

void demand(bool holds) {
    if (!holds) std::abort();
}

ProgramFile judged(const std::uint8_t* data, std::size_t size, char behind) {
    shim::ProgramHead head;
    std::ranges::fill(head.bytes, behind);
    std::memcpy(head.bytes, data, size);
    head.size = size;
    return shim::judge(head);
}

std::uint64_t number(const std::uint8_t* at, std::size_t width) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < width; i++) value |= std::uint64_t{at[i]} << (8 * i);
    return value;
}

// What the first of its segments that names a loader makes of it.
ProgramFile with_loader(const std::uint8_t* data, std::size_t size, const std::uint8_t* segment, bool wide) {
    if (!wide) return ProgramFile::narrow;
    const std::uint64_t at = number(segment + 8, 8), length = number(segment + 32, 8);
    if (at > size || length > size - at) return ProgramFile::other;
    std::string_view name(reinterpret_cast<const char*>(data + at), length);
    name = name.substr(0, name.find('\0'));
#if defined(__x86_64__)
    return name.ends_with("/ld-linux-x86-64.so.2") ? ProgramFile::other : ProgramFile::other_library;
#else
    return name.ends_with("/ld-linux-aarch64.so.1") ? ProgramFile::other : ProgramFile::other_library;
#endif
}

// Of a program for this kind of machine, or of 32 bits.
ProgramFile by_segments(const std::uint8_t* data, std::size_t size, bool wide) {
    if (size < (wide ? 64U : 52U)) return ProgramFile::other;
    const std::uint64_t first = wide ? number(data + 32, 8) : number(data + 28, 4);
    const std::uint64_t each = number(data + (wide ? 54 : 42), 2), count = number(data + (wide ? 56 : 44), 2);
    if (each != (wide ? 56U : 32U) || first > size || count * each > size - first) return ProgramFile::other;
    for (std::uint64_t i = 0; i < count; i++)
        if (number(data + first + i * each, 4) == PT_INTERP)
            return with_loader(data, size, data + first + i * each, wide);
    return ProgramFile::without_loader;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 2) return 0;
    const std::size_t length = std::min({size - 2, std::size_t{data[0]} * 8 + data[1] % 8, std::size_t{1024}});
    data += 2;
    const ProgramFile said = judged(data, length, '\0');
    demand(said == judged(data, length, '\3'));
    const bool is_elf = length >= 52 && std::memcmp(data, "\177ELF", 4) == 0;
    const bool narrow = is_elf && data[4] == 1, wide = is_elf && data[4] == 2;
    if (!narrow && !wide) return demand(said == ProgramFile::other), 0;
#if defined(__x86_64__)
    const bool own = data[5] == 1 && number(data + 18, 2) == EM_X86_64;
#else
    const bool own = data[5] == 1 && number(data + 18, 2) == EM_AARCH64;
#endif
    if (wide && !own) return demand(said == ProgramFile::foreign), 0;
    demand(said == by_segments(data, length, wide));
    return 0;
}
