// What a call lacks for the moment only, so that it may be made again.
#pragma once
#include <cerrno>

namespace chainio::net {

inline bool lacks_descriptor(int error) { return error == EMFILE || error == ENFILE; }
inline bool is_shortage(int error) { return lacks_descriptor(error) || error == ENOMEM || error == ENOBUFS; }

}  // namespace chainio::net
