// One piece of work on one frame, for disk, network and other processes alike. docs/protocol.md specifies it byte for
// byte.
#pragma once
#include <cstdint>
#include <expected>
#include <string_view>

#include "runtime/umem/slab.h"

namespace chainio::umem {

enum class Kind : std::uint8_t {
    read = 1,     // the bytes lie in the frame as a file had them
    receive = 2,  // a datagram that came in; `target` is the queue
    send = 3,     // the bytes are to leave as the answer to what is in the frame
    message = 4,  // from one process to the other
    release = 5,  // the receiver gives the frame back unanswered
};

struct Descriptor {
    Kind kind;
    std::uint8_t class_index;  // of the spec's classes; decides who waits for whom
    std::uint16_t step;        // of the chain
    Frame frame;               // in units of 512 bytes from the region's beginning
    std::uint32_t offset;      // of the first byte, in the frame
    std::uint32_t length;      // in bytes
    std::uint32_t target;      // file or queue, by index
    std::uint32_t chain;       // of the spec's chains
    std::uint32_t serial;      // names this piece of work
    std::uint32_t depends_on;  // serial of what has to be done first; 0: nothing
};
static_assert(sizeof(Descriptor) == 32);

// What is wrong with a descriptor or a ring that another process wrote.
enum class Fault : std::uint8_t { bad_index, bad_kind, bad_class, bad_frame, bad_range, bad_dependency };
std::string_view name_of(Fault fault);

// The region that descriptors of a peer have to stay in.
struct Limits {
    std::uint64_t region_bytes = 0;
    std::uint32_t classes = 1;
};

// Whether everything that the descriptor names is there: nothing that passes can lead outside of the region.
std::expected<void, Fault> check(const Descriptor& descriptor, const Limits& limits);

}  // namespace chainio::umem
