// Places of a spec, as its author counts lines.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/ir.h"

namespace chainio::testing {

class Places {
  public:
    // `source_map` is what `chainc --source-map` wrote. Without it places are lines of the canonical form.
    Places(const ir::Module& module, const std::string& source_map);

    std::string of(const ir::Stmt& stmt) const;  // "app.chain:12"; empty: the statement has no line

  private:
    struct Source {
        std::string name;
        std::map<std::uint32_t, std::uint32_t> lines;  // of the canonical form: the author's
    };
    const std::vector<std::string>& names_;  // of the canonical form's files
    std::map<std::string, Source> sources_;
};

}  // namespace chainio::testing
