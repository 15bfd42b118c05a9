// What an expression is once it is lowered: operands that name where the value is. A view or an array is never copied,
// only the numbers that locate it are.
#pragma once
#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "bpf-templates/chainio_step.h"
#include "compiler/ir/ir.h"
#include "compiler/sema/checked.h"

namespace chainio::passes {

struct Value;

// How many bytes are looked at for the end of what has at most `longest`: one more, where a block can have so many.
constexpr std::uint32_t window_of(std::uint32_t longest) {
    return std::min<std::uint32_t>(longest, CIO_MAX_BLOCK - 1) + 1;
}

// What is already computed about a field of one view. Valid where the computation dominates; ProgramLowering forgets it
// on leaving the branch in which it was computed.
struct FieldMemo {
    std::optional<ir::Operand> offset, end, exists;
    bool is_near = false;  // nothing that is added to a computed `offset` wraps around
    std::shared_ptr<const Value> value;
};
struct ViewData {
    const checked::Record* record = nullptr;
    ir::Operand offset;  // never a register that changes later
    std::vector<FieldMemo> fields;
    bool begins_near = false;  // nothing that is added to `offset` wraps around
};
struct ArrayData {
    const checked::Field* field = nullptr;  // whose elements they are
    ir::Operand offset, count;
    std::uint32_t stride = 0, max = 0;
};
// Records that follow one another in bytes.
struct RecordsData {
    const checked::Record* record = nullptr;
    ir::Operand offset, end;
    std::uint32_t max = 0;
};
// The pieces of bytes between separators of one byte.
struct PiecesData {
    ir::Slice bytes;
    std::uint32_t separator = 0, longest = 0, max = 0;
};
// The repetitions of a text capture: the bytes from the first to the end of the last, with separators between them.
struct RepeatData {
    const checked::TextItem* item = nullptr;
    ir::Slice bytes;
    ir::Operand count;
};
struct TextData {
    const checked::TextRule* rule = nullptr;
    std::vector<Value> captures;
};

struct Value {
    enum class Kind : std::uint8_t {
        none,
        scalar,
        bytes,
        view,
        array,
        records,
        pieces,
        repeat,
        text
    } kind = Kind::none;
    ir::Operand scalar;
    ir::Slice bytes;
    std::uint32_t max = 0;  // bytes: the longest
    std::shared_ptr<ViewData> view;
    std::shared_ptr<ArrayData> array;
    std::shared_ptr<RecordsData> records;
    std::shared_ptr<PiecesData> pieces;
    std::shared_ptr<RepeatData> repeat;
    std::shared_ptr<TextData> text;
    std::optional<ir::Operand> present;  // optional values: 1 or 0
    std::optional<ir::Reg> variable;     // a mutable local: the register that holds it

    static Value of(ir::Operand op) {
        Value v;
        v.kind = Kind::scalar;
        v.scalar = op;
        return v;
    }
    static Value of(ir::Slice slice, std::uint32_t max) {
        Value v;
        v.kind = Kind::bytes;
        v.bytes = slice;
        v.max = max;
        return v;
    }
};

}  // namespace chainio::passes
