// Specs for fuzz targets: of the library or of a text, without their programs' native code.
#pragma once
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <expected>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "compiler/ir/artifact.h"
#include "compiler/passes/lower.h"
#include "compiler/sema/check.h"
#include "compiler/syntax/parse.h"
#include "runtime/spec/loaded.h"
#include "tools/chainc/stdlib.h"

namespace chainio::fuzz {

inline void demand(bool holds, const std::string& what) {
    if (holds) return;
    std::fprintf(stderr, "%s\n", what.c_str());
    std::abort();
}

template <typename Value, typename Error>
Value had(std::expected<Value, Error> made, const char* what) {
    demand(made.has_value(), what);
    return std::move(*made);
}

class Library {
  public:
    static constexpr std::uint64_t kMostCached = 64 << 10;  // of a class: little, so that blocks come and go

    ir::Artifact lowered(const std::string& name) { return lowered(name, of_library(name)); }
    ir::Artifact lowered(const std::string& name, const std::string& text) {
        const auto read = [&](const std::string& path, FileId) {
            return sema::Loaded{&parsed(path, of_library(path)), path, {}};
        };
        const auto checked = sema::check(parsed(name, text), name, read, {}, diagnostics_);
        demand(checked.has_value(), diag::render_text(diagnostics_, sources_, false));
        ir::Artifact artifact{.module = passes::lower(*checked), .layout = {}, .bounds = {}};
        passes::run_passes(artifact.module);
        for (ir::FileClass& each : artifact.module.files) each.cache_bytes = std::min(each.cache_bytes, kMostCached);
        artifact.layout = ir::layout_of(artifact.module);
        return artifact;
    }

  private:
    static std::string of_library(const std::string& name) {
        std::ifstream in(chainc::find_stdlib("") + "/" + name, std::ios::binary);
        std::string text{std::istreambuf_iterator<char>(in), {}};
        demand(!text.empty(), name + " is not in the library");
        return text;
    }
    ast::File& parsed(const std::string& name, const std::string& text) {
        trees_.push_back(syntax::parse(sources_.add(name, text), sources_, diagnostics_));
        return *trees_.back();
    }

    diag::Sources sources_;
    diag::Diagnostics diagnostics_;
    std::deque<std::unique_ptr<ast::File>> trees_;
};

}  // namespace chainio::fuzz
