// Any bytes as a program to be probed, as the loader's cache and as a description of an argument: read without harm,
// and whatever site comes out lies in the file.
#include <cstdlib>

#include "runtime/probe/elf_view.h"
#include "runtime/probe/libraries.h"
#include "runtime/probe/sites.h"

using namespace chainio;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::span<const std::uint8_t> bytes(data, size);
    (void)probe::read_loader_cache(bytes);
    for (const auto text : probe::split_arguments({reinterpret_cast<const char*>(data), size})) {
        const auto argument = probe::parse_argument(text);
        if (argument ? argument->size < 1 || argument->size > 8 || argument->shift > 3 : argument.error().empty())
            std::abort();
    }
    (void)probe::classify(bytes);
    const auto elf = probe::ElfView::read(bytes);
    if (!elf) return elf.error().empty() ? std::abort(), 0 : 0;
    const ir::Probe probe{"p", "usdt", "a:b", {{"first", 64, false, false, 0}}};
    std::size_t names = 0;
    for (const probe::UsdtNote& note : elf->notes()) {
        if (++names > 64) break;
        const auto sites = probe::usdt_sites(probe, note.provider, note.name, bytes, "input");
        if (!sites && sites.error().empty()) std::abort();
        if (sites)
            for (const probe::Site& site : *sites)
                if (site.offset >= size || site.semaphore >= size) std::abort();
    }
    for (const probe::Symbol& symbol : elf->functions()) {
        if (++names > 64) break;
        const auto site = probe::function_site(probe, symbol.name, bytes, "input");
        if (site ? site->offset >= size : site.error().empty()) std::abort();
    }
    return 0;
}
