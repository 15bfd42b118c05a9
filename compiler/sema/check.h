// Semantic analysis: syntax tree in, checked module out.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "compiler/ast/ast.h"
#include "compiler/diag/diag.h"
#include "compiler/sema/checked.h"

namespace chainio::sema {

struct Define {
    std::string text;                                                    // as given
    std::variant<std::monostate, bool, std::string, ast::IntLit> value;  // none: `problem` says why
    bool negative = false;                                               // an integer behind a `-`
    std::string problem, hint;
};

struct CheckOptions {
    std::map<std::string, Define> defines;  // -D NAME=VALUE
    std::string target;                     // --target=linux-6.1; empty: no restriction
};

// Finds and parses an imported file; null when there is none (the checker reports it, with the `tried` places).
struct Loaded {
    ast::File* file = nullptr;
    std::string canonical_name;  // as Line information names it
    std::vector<std::string> tried;
    std::string meant = {};  // a hint: what else may be meant; empty: nothing
};
using Loader = std::function<Loaded(const std::string& path, FileId importing)>;

// nullopt when there was an error. `root_name` names the root file in line information. Warnings may be reported either
// way.
std::optional<checked::Module> check(ast::File& root, const std::string& root_name, const Loader&, const CheckOptions&,
                                     diag::Diagnostics&);

}  // namespace chainio::sema
