// Descriptors 0 to 2 of a process that was started with some of them closed.
#pragma once
#include <fcntl.h>

#include <cerrno>

namespace chainio::tool {

// Has no file and no connection get their numbers. What is read and written there fails as it would on a closed one,
// and programs that are started find them closed. To be called before anything is opened. False: that cannot be had.
inline bool hold_standard_files() {
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
        if (open("/dev/null", (fd == 0 ? O_WRONLY : O_RDONLY) | O_CLOEXEC) != fd) return false;
    }
    return true;
}

}  // namespace chainio::tool
