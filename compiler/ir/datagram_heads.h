// What each datagram of a reply begins with (`on datagram`).
#pragma once
#include "compiler/ir/ir.h"

namespace chainio::ir {

inline constexpr std::uint32_t kDatagramHead = 64;  // bytes that `on datagram` may write

// Whether the beginnings of a reply's datagrams are certainly of one length, and all there when one is: nothing but the
// digits of fixed width that they show depends on a datagram's number, and on how many there are.
bool heads_are_alike(const Program& on_datagram);

}  // namespace chainio::ir
