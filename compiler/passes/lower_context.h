// What the programs of one module, and those of one chain, share while they are lowered.
#pragma once
#include <map>
#include <string_view>
#include <vector>

#include "compiler/ir/ir.h"
#include "compiler/sema/checked.h"

namespace chainio::passes {

class ModuleContext {
  public:
    explicit ModuleContext(const checked::Module& module);

    const checked::Module& checked;
    ir::Module out;

    // The bytes in the literal space, shared with equal ones.
    ir::Slice literal(std::string_view bytes);
    // The number of a header record's field among the integers that the header program emits.
    std::uint16_t header_ordinal(std::uint32_t file_class, std::uint32_t field) const;

  private:
    std::map<std::string, std::uint32_t, std::less<>> literals_;
};

// Whether a header program emits the field.
bool is_header_field(const checked::Field&);

class ChainContext {
  public:
    ChainContext(ModuleContext& module, const checked::Chain& chain);

    ModuleContext& module;
    const checked::Chain& chain;
    ir::Chain out;

    // The hidden argument slot of a header field of a file parameter.
    std::uint16_t header_slot(std::uint32_t file, std::uint32_t field);

    struct StateSlot {
        std::uint32_t offset = 0;
        std::uint8_t width = 8;      // integers
        std::uint32_t capacity = 0;  // bytes: a 32-bit length at `offset`, then the bytes
    };
    const StateSlot& state(std::uint32_t index) const { return state_[index]; }

  private:
    StateSlot bytes_slot(std::uint32_t capacity);
    void add_params();
    void add_state();
    void set_initial(std::uint32_t offset, std::uint64_t value, std::uint32_t width);
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint16_t> header_slots_;
    std::vector<StateSlot> state_;
};

}  // namespace chainio::passes
