// How a read came to its bytes, by what was posted of it.
#pragma once
#include "runtime/shim/protocol.h"

namespace chainio::shadow {

struct HowRead {
    bool direct = false;  // past the page cache
    bool served = false;  // from served memory
    bool told = false;    // that it begins, before
};

inline HowRead how_it_read(shim::EventKind kind) {
    using shim::EventKind;
    switch (kind) {
        case EventKind::ended: return {.told = true};
        case EventKind::served: return {.direct = true, .served = true};
        case EventKind::served_ended: return {.direct = true, .served = true, .told = true};
        case EventKind::direct:
        case EventKind::direct_begun: return {.direct = true};
        case EventKind::direct_ended: return {.direct = true, .told = true};
        default: return {};
    }
}

}  // namespace chainio::shadow
