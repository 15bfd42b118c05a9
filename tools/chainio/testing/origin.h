// Where an outcome comes from.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "runtime/spec/loaded.h"
#include "tools/chainio/testing/steps.h"
#include "tools/chainio/testing/walk.h"

namespace chainio::testing {

struct Origin {
    std::string step;   // the program; empty: none has ended the chain
    std::string place;  // of the spec; empty: not known
    std::size_t reads = 0;
    std::optional<DoneRead> last;
};

// Of a run by make_watched_steps(). `source_map` is that of Places.
Origin origin_of(const ir::Module& module, const Outcome& outcome, const Ended& ended, const std::string& source_map);
// "comes from get.rec at app.chain:40; read 2 is the last: { file: log, at: 16, for: 67 }"; empty: there is nothing to
// tell.
std::string described(const Origin& origin);

}  // namespace chainio::testing
