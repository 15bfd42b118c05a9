// Descriptors 0 to 2 of a process that was started with some of them closed.
#pragma once
#include <fcntl.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace chainio::tool {

// Has no file and no connection get their numbers. What is read and written there fails as it would on a closed one,
// and programs that are started find them closed. To be called before anything is opened. False, and said where it can
// be: that cannot be had.
inline bool hold_standard_files(const char* program) {
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
        if (open("/dev/null", (fd == 0 ? O_WRONLY : O_RDONLY) | O_CLOEXEC) == fd) continue;
        std::fprintf(stderr,
                     "%s: file %d is closed, and /dev/null cannot be opened in its place: %s; give it an open one\n",
                     program, fd, std::strerror(errno));
        return false;
    }
    return true;
}

}  // namespace chainio::tool
