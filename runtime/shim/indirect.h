// System calls that are told apart by their numbers.
#pragma once

namespace chainio::shim {

struct Arguments {
    long a, b, c, d, e, f;
};
using Six = long (*)(long, long, long, long, long, long, long);

// Makes the call by `call` and does what goes with it. False, and nothing is done, when nothing needs doing after it:
// then the call is still to be made.
bool seen_by_number(Six call, long number, const Arguments& in, long& result);

}  // namespace chainio::shim
