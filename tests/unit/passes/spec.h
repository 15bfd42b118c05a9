// Specs as text, lowered and run on blocks that the test makes up.
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "bpf-templates/chainio_step.h"
#include "compiler/ir/artifact.h"
#include "compiler/ir/interpret.h"

namespace chainio::passes::test {

using Block = std::vector<std::uint8_t>;

// The module of a spec without errors, lowered; the passes have not run.
ir::Module lowered(const std::string& spec);

struct Ran {
    cio_io io{};
    Block out, state, slice;  // what was emitted, the state afterwards, the bytes of a slice result
    std::vector<cio_prefetch> prefetches;
    std::string outcome() const { return names; }
    std::string names;  // the outcome's word
};

class Spec {
  public:
    explicit Spec(const std::string& text);

    // Runs a program (by name) twice, as lowered and after the passes; both must leave the same memory.
    Ran run(const std::string& program, const Block& block,
            const std::function<void(cio_io&, std::uint8_t* areas)>& prepare = {}) const;
    // The same on what an earlier run left behind.
    Ran run_on(const Ran& before, const std::string& program, const Block& block) const;
    std::uint64_t scalar(const std::string& program, const Block& block,
                         const std::function<void(cio_io&, std::uint8_t*)>& prepare = {}) const;
    const ir::Artifact& artifact() const { return plain_; }
    const ir::Artifact& optimized() const { return optimized_; }
    const ir::Chain& chain() const { return plain_.module.chains.front(); }

  private:
    std::uint32_t program_index(const std::string& name) const;
    ir::Artifact plain_, optimized_;
};

// A step that returns the value of `expression` over records and the block; `declarations` come before the chain.
inline std::string returning(const std::string& declarations, const std::string& type, const std::string& body) {
    return "files pages = \"*.db\"\n" + declarations + "\nchain c(db: file pages, key: u64, name: bytes(max 32)) -> " +
           type + " hops 4 {\n  step s(b: block at key for 4096) {\n" + body + "\n  }\n}\n";
}

// What prepares a run of it.
inline auto with_key(std::uint64_t key) {
    return [key](cio_io& io, std::uint8_t*) { io.args[0] = key; };
}

inline Block bytes(std::string_view text) { return {text.begin(), text.end()}; }

}  // namespace chainio::passes::test
