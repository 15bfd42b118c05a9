#include "tests/support/cases.h"

#include <algorithm>
#include <cstring>

#include "bpf-templates/chainio_step.h"

namespace chainio::tests {
namespace {

void fill_random(Random& random, std::span<std::uint8_t> bytes) {
    for (std::size_t i = 0; i < bytes.size(); i += 8) {
        std::uint64_t word = random.next();
        std::memcpy(bytes.data() + i, &word, std::min<std::size_t>(8, bytes.size() - i));
    }
}

// Bytes as formats have them: mostly small numbers, with a few that are not.
void fill_small(Random& random, std::span<std::uint8_t> bytes) {
    fill_random(random, bytes);
    std::uint8_t mask = static_cast<std::uint8_t>(random.one_in(2) ? 0x0f : 0x83);
    for (std::uint8_t& byte : bytes) byte &= mask;
    for (std::uint64_t i = random.below(8); i-- > 0 && !bytes.empty();)
        bytes[random.below(bytes.size())] = static_cast<std::uint8_t>(random.next());
}

// Headers decide most, so half of all changes go to the first bytes.
std::size_t place_in(Random& random, std::size_t size) {
    return random.below(random.one_in(2) ? std::min<std::size_t>(size, 64) : size);
}

void mutate(Random& random, std::span<std::uint8_t> bytes) {
    if (bytes.empty()) return;
    std::size_t at = place_in(random, bytes.size());
    std::uint64_t word = random.interesting();
    std::size_t width = std::min<std::size_t>(std::size_t{1} << random.below(4), bytes.size() - at);
    switch (random.below(4)) {
        case 0: bytes[at] ^= static_cast<std::uint8_t>(1u << random.below(8)); break;
        case 1: std::memcpy(bytes.data() + at, &word, width); break;
        case 2: {
            word = __builtin_bswap64(word) >> (64 - 8 * width);
            std::memcpy(bytes.data() + at, &word, width);
            break;
        }
        default: {
            std::size_t from = random.below(bytes.size());
            std::size_t length = std::min({random.below(32), bytes.size() - at, bytes.size() - from});
            std::memmove(bytes.data() + at, bytes.data() + from, length);
        }
    }
}

std::size_t random_length(Random& random) {
    switch (random.below(16)) {
        case 0: return random.below(16);
        case 1: return random.below(CIO_MAX_BLOCK + 1);
        case 2: return 4096;
        case 3:
        case 4: return random.below(4097);
        default: return 128 + random.below(385);
    }
}

}  // namespace

std::uint64_t Random::next() {
    state_ += 0x9e3779b97f4a7c15u;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

std::uint64_t Random::interesting() {
    switch (below(4)) {
        case 0: return below(20);
        case 1: return (std::uint64_t{1} << below(64)) + below(3) - 1;
        case 2: return below(65537);
        default: return next();
    }
}

CaseMaker::CaseMaker(const ir::Artifact& artifact, const Inputs& inputs)
    : artifact_(artifact),
      inputs_(inputs),
      slots_(artifact.module.programs.size()),
      chains_(artifact.module.programs.size()) {
    const ir::Module& module = artifact.module;
    for (const ir::Chain& chain : module.chains) {
        std::vector<Slot> slots(CIO_MAX_ARGS);
        std::vector<const ir::Param*> files;
        for (const ir::Param& param : chain.params) {
            if (param.kind == ir::Param::Kind::file) files.push_back(&param);
            if (param.kind != ir::Param::Kind::file && param.slot < slots.size())
                slots[param.slot] = {param.name, param.bits, param.is_signed,
                                     param.kind == ir::Param::Kind::bytes ? param.max : 0};
        }
        for (const ir::HeaderArg& header : chain.header_args) {
            if (header.slot >= slots.size() || header.file >= files.size()) continue;
            const auto& names = module.files[files[header.file]->file_class].header_fields;
            std::string field = header.field == ir::kFileSizeField ? "size"
                                : header.field < names.size()      ? names[header.field]
                                                                   : "";
            slots[header.slot].name = files[header.file]->name + "." + field;
        }
        std::vector<std::int32_t> programs = {chain.entry, chain.done, chain.shadow};
        for (const ir::Step& step : chain.steps) programs.push_back(step.program);
        for (std::int32_t program : programs) {
            if (program < 0) continue;
            slots_[static_cast<std::size_t>(program)] = slots;
            chains_[static_cast<std::size_t>(program)] = &chain;
        }
    }
}

std::uint32_t CaseMaker::make_block(Random& random, std::span<std::uint8_t> block, std::uint64_t& offset) const {
    if (!inputs_.pages.empty() && !random.one_in(8)) {
        const SeedPage& page = inputs_.pages[random.below(inputs_.pages.size())];
        std::size_t length = std::min<std::size_t>(page.bytes.size(), CIO_MAX_BLOCK);
        std::memcpy(block.data(), page.bytes.data(), length);
        offset = page.offset;
        std::uint64_t changes = random.one_in(3) ? 0 : random.one_in(3) ? random.below(64) : 1 + random.below(3);
        while (changes-- > 0) mutate(random, block.first(length));
        if (random.one_in(16)) length = random.below(length + 1);
        return static_cast<std::uint32_t>(length);
    }
    std::size_t length = random_length(random);
    if (random.one_in(2)) {
        fill_random(random, block.first(length));
    } else {
        fill_small(random, block.first(length));
    }
    offset = random.one_in(3) ? 0 : random.interesting() & 0xffffffffffff;
    return static_cast<std::uint32_t>(length);
}

std::uint64_t CaseMaker::value_for(const Slot& slot, Random& random, std::span<const std::uint8_t> block) const {
    std::uint64_t value = random.interesting();
    auto listed = inputs_.values.find(slot.name);
    if (listed != inputs_.values.end() && !listed->second.empty() && !random.one_in(4)) {
        value = listed->second[random.below(listed->second.size())];
    } else if (block.size() >= 8 && random.one_in(2)) {
        // A value that the block holds is one that a comparison can meet.
        std::memcpy(&value, block.data() + random.below(block.size() - 7), 8);
        if (random.one_in(2)) value = __builtin_bswap64(value);
        value >>= 8 * random.below(8);
    }
    if (slot.bits >= 64) return value;
    std::uint64_t low = value << (64 - slot.bits);
    return slot.is_signed ? static_cast<std::uint64_t>(static_cast<std::int64_t>(low) >> (64 - slot.bits))
                          : low >> (64 - slot.bits);
}

std::uint32_t CaseMaker::make_bytes(const Slot& slot, Random& random, std::span<const std::uint8_t> block,
                                    std::span<std::uint8_t> into) const {
    const auto listed = inputs_.bytes.find(slot.name);
    if (listed != inputs_.bytes.end() && !random.one_in(4)) {
        const auto& one = listed->second[random.below(listed->second.size())];
        const std::size_t length = std::min(one.size(), into.size());
        std::copy_n(one.begin(), length, into.begin());
        return static_cast<std::uint32_t>(length);
    }
    const auto length = static_cast<std::uint32_t>(random.below(into.size() + 1));
    if (block.size() >= length && random.one_in(2)) {
        std::memcpy(into.data(), block.data() + random.below(block.size() - length + 1), length);
    } else {
        fill_small(random, into.first(length));
    }
    return length;
}

void CaseMaker::make(std::size_t program, Random& random, CaseBuffers buffers) const {
    std::ranges::fill(buffers.io, std::uint8_t{0});
    auto& io = *reinterpret_cast<cio_io*>(buffers.io.data());
    const ir::IoLayout& layout = artifact_.layout;
    std::uint64_t offset = 0;
    io.block_length = make_block(random, buffers.block, offset);
    io.block_offset = offset;
    std::span<const std::uint8_t> block = buffers.block.first(io.block_length);
    io.block_tag = value_for({"tag", 64, false, 0}, random, block);
    std::uint32_t used = 0;
    for (std::size_t i = 0; i < slots_[program].size(); i++) {
        const Slot& slot = slots_[program][i];
        if (slot.bytes_max == 0) {
            io.args[i] = value_for(slot, random, block);
            continue;
        }
        const std::uint32_t most = std::min(slot.bytes_max, layout.arg_bytes_size - used);
        const std::uint32_t length =
            make_bytes(slot, random, block, buffers.io.subspan(layout.arg_bytes_offset + used, most));
        io.args[i] = used;
        io.args[++i] = length;
        used += length;
    }
    auto state = buffers.io.subspan(layout.state_offset, layout.state_size);
    const ir::Chain* chain = chains_[program];
    if (random.one_in(4)) {
        fill_small(random, state);
    } else if (chain != nullptr && !chain->initial_state.empty()) {
        std::memcpy(state.data(), chain->initial_state.data(), std::min(state.size(), chain->initial_state.size()));
    }
    io.out_length = random.one_in(4) ? static_cast<std::uint32_t>(random.below(layout.out_size + 1)) : 0;
}

}  // namespace chainio::tests
