// A YAML document as a tree that knows where each byte of each text stands in the file.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/diag/diag.h"
#include "compiler/syntax/scanner.h"

namespace chainio::syntax {

struct YamlPair;

struct YamlNode {
    enum class Kind { scalar, list, map } kind = Kind::scalar;
    bool null = false;          // an empty value
    bool refused = false;       // an alias, which is reported already
    std::size_t offset = 0;     // where it begins in the file
    std::size_t end = 0;        // scalars: one past the last byte, quotes included
    std::string text;           // scalars: decoded
    std::vector<Place> places;  // scalars: of each byte of `text`, and of its end
    Span span;
    std::vector<YamlNode> items;  // lists
    std::vector<YamlPair> pairs;  // maps
};

struct YamlPair {
    YamlNode first, second;
};

// Reports what is not YAML or not allowed; nullopt when there is nothing to go on with. Comments of the file are added
// to `comments`.
std::optional<YamlNode> read_yaml(FileId file, std::string_view text, diag::Diagnostics& diags,
                                  std::vector<Comment>& comments);

}  // namespace chainio::syntax
