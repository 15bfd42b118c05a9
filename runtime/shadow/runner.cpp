#include "runtime/shadow/runner.h"

#include <algorithm>
#include <cstring>

#include "bpf-templates/chainio_step_begin.h"

namespace chainio::shadow {
namespace {

std::size_t memory_for(const spec::Loaded& spec) {
    return std::max<std::size_t>(spec.artifact().layout.total, sizeof(cio_io)) + CIO_PAD;
}

// The next 8 bytes of a probe's arguments, or nothing.
std::optional<std::uint64_t> take_word(std::span<const std::uint8_t>& from) {
    std::uint64_t word = 0;
    if (from.size() < sizeof word) return std::nullopt;
    std::memcpy(&word, from.data(), sizeof word);
    from = from.subspan(sizeof word);
    return word;
}

}  // namespace

Runner::Runner(const spec::Loaded& spec) : spec_(spec), memory_(memory_for(spec)), block_(CIO_MAX_BLOCK + CIO_PAD) {}

bool Runner::bind_probe(const ir::Chain& chain, std::span<const std::uint8_t> arguments) {
    const ir::IoLayout& layout = spec_.artifact().layout;
    std::uint32_t used = 0;
    for (const ir::Param& param : chain.params) {
        if (param.kind == ir::Param::Kind::file) return false;
        const auto word = take_word(arguments);
        if (!word) return false;
        if (param.kind == ir::Param::Kind::scalar) {
            io().args[param.slot] = *word;
            continue;
        }
        const std::uint64_t length = *word;
        if (length > arguments.size() || length > param.max || length > layout.arg_bytes_size - used) return false;
        if (length != 0) std::memcpy(area(layout.arg_bytes_offset) + used, arguments.data(), length);
        arguments = arguments.subspan(std::min<std::size_t>((length + 7) / 8 * 8, arguments.size()));
        io().args[param.slot] = used;
        io().args[param.slot + 1] = length;
        used += static_cast<std::uint32_t>(length);
    }
    // Another event's arguments must never show.
    std::memset(area(layout.arg_bytes_offset) + used, 0, layout.arg_bytes_size - used);
    return true;
}

std::uint32_t Runner::run(std::uint32_t chain_index, const Event& event) {
    const ir::Chain& chain = spec_.module().chains[chain_index];
    cio_io& to = io();
    to.prefetch_count = 0;
    if (chain.mode == ir::ChainMode::on_probe && !bind_probe(chain, event.arguments)) return CIO_BAD_ARGUMENT;
    for (const ir::HeaderArg& header : chain.header_args) {
        if (header.field == ir::kFileSizeField) {
            to.args[header.slot] = event.file == nullptr ? 0 : event.file->size;
        } else if (header.field == ir::kReadAheadField) {
            to.args[header.slot] = event.file == nullptr ? 0 : programs_read_ahead(spec_.module(), *event.file);
        } else if (header.field == ir::kMarkField) {
            to.args[header.slot] = event.mark;
        } else if (header.field == ir::kLastMarkField) {
            to.args[header.slot] = event.last_mark;
        } else {
            if (event.header == nullptr || header.field >= event.header->size()) return CIO_BAD_ARGUMENT;
            to.args[header.slot] = (*event.header)[header.field];
        }
    }
    block_length_ = std::min<std::uint32_t>(event.length, CIO_MAX_BLOCK);
    std::memset(block_.data() + block_length_, 0, CIO_PAD);
    cio_begin(&to, event.offset, event.total, block_length_);
    spec_.run(static_cast<std::uint32_t>(chain.shadow), to, block_.data());
    return to.outcome;
}

std::span<const cio_prefetch> Runner::prefetches() const {
    const ir::IoLayout& layout = spec_.artifact().layout;
    const auto* list = reinterpret_cast<const cio_prefetch*>(area(layout.prefetch_offset));
    return {list, std::min(io().prefetch_count, layout.prefetch_count)};
}

std::optional<std::string_view> Runner::name_of(const cio_prefetch& prefetch) const {
    const ir::IoLayout& layout = spec_.artifact().layout;
    const std::uint8_t* base = nullptr;
    std::uint64_t size = 0;
    switch (prefetch.name_space) {
        case CIO_SPACE_BLOCK: base = block_.data(), size = block_length_; break;
        case CIO_SPACE_ARGS: base = area(layout.arg_bytes_offset), size = layout.arg_bytes_size; break;
        case CIO_SPACE_STATE: base = area(layout.state_offset), size = layout.state_size; break;
        case CIO_SPACE_LITERAL: base = spec_.module().literals.data(), size = spec_.module().literals.size(); break;
        default: return std::nullopt;
    }
    if (std::uint64_t{prefetch.name_offset} + prefetch.name_length > size) return std::nullopt;
    return std::string_view(reinterpret_cast<const char*>(base) + prefetch.name_offset, prefetch.name_length);
}

}  // namespace chainio::shadow
