// The helper routines that one artifact needs: each is a template, instantiated for the spaces that it is used with.
#pragma once
#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "compiler/ir/ir.h"

namespace chainio::backends {

class Helpers {
  public:
    // Asks for template op_<name>.h over `first` (and `second`), whose loops run over at most `max` bytes.
    void need(std::string name, ir::Space first = ir::Space::block, ir::Space second = ir::Space::block,
              std::uint32_t max = 0);
    bool needs(const std::string& name) const;
    // The text of all of them, in an order that satisfies what they use of each other.
    std::string text() const;

  private:
    using Key = std::tuple<std::string, ir::Space, ir::Space>;
    std::map<Key, std::uint32_t> wanted_;
};

// The word of a space in the names of the prelude.
std::string_view space_word(ir::Space);

}  // namespace chainio::backends
