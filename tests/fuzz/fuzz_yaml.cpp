// The YAML form: no text crashes the front end, and what it accepts survives every printer.
#include "tests/fuzz/round_trip.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    chainio::fuzz::run(data, size, "fuzz.yaml", chainio::syntax::parse_yaml);
    return 0;
}
