// What a call lacks for the moment only, so that it may be made again.
#pragma once
#include <cerrno>

namespace chainio::net {

inline bool is_shortage(int error) { return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS; }

}  // namespace chainio::net
