// From the lines of the canonical form back to the files that the user wrote.
#pragma once
#include <map>
#include <string>

#include "tools/chainc/loader.h"

namespace chainio::chainc {

class SourceMap {
  public:
    explicit SourceMap(const FileLoader&);

    // The place of what stands at `line` of the canonical form of `canonical_name`, or of the nearest thing above it.
    // A span of file 0 when there is none.
    Span find(const std::string& canonical_name, std::uint32_t line) const;
    std::string to_json(const diag::Sources&) const;

  private:
    std::map<std::string, std::map<std::uint32_t, Span>> lines_;
};

}  // namespace chainio::chainc
