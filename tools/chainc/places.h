// Where in the user's files the programs and chains of the compiled module come from.
#pragma once
#include <cstddef>
#include <string>

#include "compiler/sema/checked.h"
#include "tools/chainc/source_map.h"

namespace chainio::chainc {

struct Compilation;

class Places {
  public:
    explicit Places(const Compilation&);
    Span of_program(std::size_t program) const;
    Span of_chain(std::size_t chain) const;
    Span of_line(const std::string& canonical_name, std::uint32_t line) const {
        return map_.find(canonical_name, line);
    }

  private:
    const checked::Handler* handler_of(std::size_t program) const;

    const Compilation& compilation_;
    SourceMap map_;
};

}  // namespace chainio::chainc
