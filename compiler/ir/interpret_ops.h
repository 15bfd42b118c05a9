// What the statements without control flow do, for the interpreter of programs and that of handlers.
#pragma once
#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "bpf-templates/chainio_step.h"
#include "compiler/ir/arith.h"
#include "compiler/ir/artifact.h"
#include "compiler/ir/bytes_ops.h"
#include "compiler/ir/hash.h"

namespace chainio::ir {

// How a run goes on behind a statement.
enum class After : std::uint8_t { on, break_, continue_, stop };

class Operations {
  public:
    // `regs` has room for the program's registers, which are written before they are read.
    Operations(const Artifact& artifact, cio_io& io, const std::uint8_t* block, std::uint64_t* regs)
        : artifact_(artifact), io_(io), base_(reinterpret_cast<std::uint8_t*>(&io)), block_(block), regs_(regs) {}

  protected:
    After fail(std::uint32_t outcome) {
        io_.outcome = outcome;
        io_.finished = 0;
        io_.next_count = 0;
        io_.prefetch_count = 0;
        io_.out_length = 0;
        return After::stop;
    }
    // validate() proves every range; this is the second line of defence.
    After escaped() {
        escaped_ = true;
        return fail(CIO_MALFORMED);
    }

    std::uint64_t get(const Operand& op) const { return op.is_imm ? op.value : regs_[op.value]; }
    After set(Reg r, std::uint64_t v) {
        regs_[r] = v;
        return After::on;
    }

    Bytes space(Space s) const {
        switch (s) {
            case Space::block: return {block_, io_.block_length};
            case Space::args: return {base_ + artifact_.layout.arg_bytes_offset, artifact_.layout.arg_bytes_size};
            case Space::state: return {base_ + artifact_.layout.state_offset, artifact_.layout.state_size};
            case Space::literal: return artifact_.module.literals;
            case Space::result: return {};  // by number: located()
        }
        return {};
    }
    // The bytes that an offset is counted in, and the offset in them.
    std::pair<Bytes, std::uint64_t> located(Space s, std::uint64_t offset) const {
        if (s != Space::result) return {space(s), offset};
        const std::uint64_t number = offset >> 32;
        return {number < results_.size() ? results_[number] : Bytes{}, offset & UINT32_MAX};
    }
    static bool inside(std::uint64_t size, std::uint64_t offset, std::uint64_t length) {
        return offset <= size && length <= size - offset;
    }
    bool slice(const Slice& s, Bytes& out) const {
        auto [all, offset] = located(s.space, get(s.offset));
        std::uint64_t length = get(s.length);
        if (!inside(all.size(), offset, length)) return false;
        out = all.subspan(offset, length);
        return true;
    }
    // Calls f with the bytes of the slice once it is known to be inside its space and not too long for the operation.
    template <class F>
    After with(const Slice& s, std::uint64_t max, F&& f) {
        Bytes bytes;
        if (!slice(s, bytes)) return escaped();
        return bytes.size() > max ? fail(CIO_OVERFLOW) : f(bytes);
    }

    After exec(const Move& n) { return set(n.dst, get(n.src)); }
    After exec(const Unary& n) { return set(n.dst, evaluate(n.op, get(n.a))); }
    After exec(const Binary& n) { return set(n.dst, evaluate(n.op, get(n.a), get(n.b))); }
    After exec(const Select& n) { return set(n.dst, get(n.cond) != 0 ? get(n.a) : get(n.b)); }
    After exec(const GetInput& n) {
        switch (n.input) {
            case Input::block_offset: return set(n.dst, io_.block_offset);
            case Input::block_length: return set(n.dst, io_.block_length);
            case Input::block_tag: return set(n.dst, io_.block_tag);
            case Input::out_length: return set(n.dst, io_.out_length);
        }
        return After::on;
    }
    After exec(const GetArg& n) { return set(n.dst, io_.args[n.index]); }
    After exec(const Load& n) {
        return with({n.space, n.offset, Operand::imm(n.width)}, 8,
                    [&](Bytes b) { return set(n.dst, read_int(b, n.big_endian, n.is_signed)); });
    }
    After exec(const StoreState& n) {
        std::uint64_t offset = get(n.offset), value = get(n.src);
        if (!inside(artifact_.layout.state_size, offset, n.width)) return escaped();
        std::uint8_t* to = base_ + artifact_.layout.state_offset + offset;
        for (std::uint32_t i = 0; i < n.width; i++) to[i] = static_cast<std::uint8_t>(value >> (8 * i));
        return After::on;
    }
    After exec(const Check& n) { return get(n.cond) == 0 ? fail(n.outcome) : After::on; }
    After exec(const CheckRange& n) {
        auto [all, offset] = located(n.space, get(n.offset));
        return inside(all.size(), offset, get(n.length)) ? After::on : fail(n.outcome);
    }
    After exec(const Varint& n) {
        auto [all, offset] = located(n.space, get(n.offset));
        const std::uint64_t limit = n.space == Space::result ? get(n.limit) & UINT32_MAX : get(n.limit);
        const std::uint64_t end = std::min<std::uint64_t>(limit, all.size());
        if (offset >= end) return fail(n.outcome);
        auto result = read_varint(n.kind, all.subspan(offset, end - offset));
        if (!result) return fail(n.outcome);
        regs_[n.value] = result->value;
        return set(n.length, result->length);
    }
    After exec(const IntOfBytes& n) {
        Bytes bytes;
        if (!slice(n.bytes, bytes)) return escaped();
        return bytes.size() > 8 ? fail(CIO_MALFORMED) : set(n.dst, read_int(bytes, n.big_endian, n.is_signed));
    }
    After exec(const Compare& n) {
        Bytes a, b;
        if (!slice(n.a, a) || !slice(n.b, b)) return escaped();
        return std::min(a.size(), b.size()) > n.max ? fail(CIO_OVERFLOW) : set(n.dst, compare_bytes(a, b));
    }
    After exec(const Hash& n) {
        return with(n.bytes, n.max, [&](Bytes b) { return set(n.dst, hash_bytes(n.algo, b, get(n.seed))); });
    }
    After exec(const FindByte& n) {
        return with(n.bytes, n.max, [&](Bytes b) {
            auto at = std::ranges::find(b, static_cast<std::uint8_t>(get(n.byte)));
            return set(n.dst, static_cast<std::uint64_t>(at - b.begin()));
        });
    }
    After exec(const ParseDecimal& n) {
        Bytes bytes;
        if (!slice(n.bytes, bytes)) return escaped();
        auto value = parse_decimal(bytes);
        return value ? set(n.dst, *value) : fail(n.outcome);
    }
    After exec(const CopyToState& n) {
        return with(n.src, n.max, [&](Bytes b) {
            std::uint64_t offset = get(n.dst_offset);
            if (!inside(artifact_.layout.state_size, offset, b.size())) return escaped();
            std::uint8_t* to = base_ + artifact_.layout.state_offset + offset;
            for (std::size_t i = 0; i < b.size(); i++) to[i] = b[i];
            return After::on;
        });
    }
    bool fits_out(std::uint64_t more, std::uint32_t limit) const {
        return io_.out_length <= limit && more <= limit - io_.out_length;
    }
    std::uint8_t* out_end() const { return base_ + artifact_.layout.out_offset + io_.out_length; }
    After exec(const EmitInt& n) {
        if (!fits_out(n.width, n.limit)) return fail(CIO_OVERFLOW);
        std::uint64_t value = get(n.value);
        for (std::uint32_t i = 0; i < n.width; i++) out_end()[i] = static_cast<std::uint8_t>(value >> (8 * i));
        io_.out_length += n.width;
        return After::on;
    }
    After exec(const EmitBytes& n) {
        return with(n.bytes, n.max, [&](Bytes b) {
            if (!fits_out(b.size(), n.limit)) return fail(CIO_OVERFLOW);
            if (!b.empty()) std::memmove(out_end(), b.data(), b.size());
            io_.out_length += static_cast<std::uint32_t>(b.size());
            return After::on;
        });
    }
    After exec(const Next& n) {
        std::uint64_t length = get(n.length);
        if (length == 0 || length > CIO_MAX_BLOCK) return fail(CIO_MALFORMED);
        if (io_.next_count >= CIO_MAX_NEXT) return fail(CIO_FANOUT);
        io_.next[io_.next_count++] = {get(n.offset), get(n.tag), static_cast<std::uint32_t>(length), n.step, n.file};
        return After::on;
    }
    After exec(const Return& n) {
        if (n.kind == ResultKind::slice) {
            Bytes bytes;
            if (!slice(n.slice, bytes)) return escaped();
            io_.slice_space = static_cast<std::uint32_t>(n.slice.space);
            io_.slice_offset = static_cast<std::uint32_t>(get(n.slice.offset));
            io_.slice_length = static_cast<std::uint32_t>(bytes.size());
        }
        if (n.kind == ResultKind::scalar) io_.result = get(n.scalar);
        io_.result_kind = static_cast<std::uint32_t>(n.kind);
        io_.finished = 1;
        io_.next_count = 0;
        return After::stop;
    }
    After exec(const Fail& n) { return fail(n.outcome); }
    After exec(const End&) { return After::stop; }
    After exec(const Prefetch& n) {
        if (io_.prefetch_count >= artifact_.layout.prefetch_count) return After::on;
        cio_prefetch entry{};
        entry.kind = static_cast<std::uint16_t>(n.kind);
        entry.target = n.target;
        if (is_call(n.kind))
            for (std::size_t i = 0; i < n.args.size() && i < 4; i++) entry.args[i] = get(n.args[i]);
        if (n.kind != PrefetchKind::chain) {
            entry.offset = get(n.offset);
            entry.length = get(n.length);
        }
        if (n.kind == PrefetchKind::sibling || n.kind == PrefetchKind::path) {
            Bytes bytes;
            if (!slice(n.name, bytes)) return escaped();
            entry.name_space = static_cast<std::uint16_t>(n.name.space);
            entry.name_offset = static_cast<std::uint32_t>(get(n.name.offset));
            entry.name_length = static_cast<std::uint32_t>(bytes.size());
        }
        auto* list = base_ + artifact_.layout.prefetch_offset;
        std::memcpy(list + sizeof(entry) * io_.prefetch_count++, &entry, sizeof(entry));
        return After::on;
    }
    After exec(const Break&) { return After::break_; }
    After exec(const Continue&) { return After::continue_; }

    const Artifact& artifact_;
    cio_io& io_;
    std::uint8_t* base_;
    const std::uint8_t* block_;
    std::uint64_t* regs_;
    std::span<const Bytes> results_;  // of called chains, by their numbers; handlers only
    bool escaped_ = false;            // an access that validate() should have refused
};

}  // namespace chainio::ir
