// Reads a program from standard input, a file, and writes to standard output where it makes system calls without libc,
// as runtime/shim/sites.h says. The preload library starts it in front of a program when `chainio run --rewrite` asks
// for that, so that no disassembler is in the program itself.
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>

#include "runtime/sites/scan.h"

namespace {

bool write_all(const void* bytes, std::size_t size) {
    const auto* at = static_cast<const char*>(bytes);
    while (size != 0) {
        const ssize_t written = ::write(1, at, size);
        if (written <= 0) return false;
        at += written;
        size -= static_cast<std::size_t>(written);
    }
    return true;
}

std::span<const std::uint8_t> standard_input() {
    struct stat status{};
    if (::fstat(0, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size == 0) return {};
    const auto size = static_cast<std::size_t>(status.st_size);
    void* memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, 0, 0);
    if (memory == MAP_FAILED) return {};
    return {static_cast<const std::uint8_t*>(memory), size};
}

}  // namespace

int main(int count, char**) {
    using namespace chainio;
    constexpr std::string_view kUsage =
        "chainio-sites: reads a program's file from standard input, and writes in binary where that makes system "
        "calls\n"
        "without libc. It takes no arguments: `chainio run --rewrite` has it started before each program.\n";
    if (count > 1) return write_all(kUsage.data(), kUsage.size()) ? 2 : 1;
    const sites::Scan found = sites::scan(standard_input());
    shim::SiteList list{};
    list.magic = shim::kSitesMagic;
    list.count = static_cast<std::uint32_t>(found.sites.size());
    list.others = found.others;
    list.unknown = found.unknown;
    std::memcpy(list.refused, found.refused.data(), std::min(found.refused.size(), sizeof list.refused - 1));
    const bool written =
        write_all(&list, sizeof list) && write_all(found.sites.data(), found.sites.size() * sizeof(shim::Site));
    return written ? 0 : 1;
}
