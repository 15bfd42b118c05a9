// Which system calls have to be looked at where a program makes them without libc, by their numbers on x86-64.
#pragma once
#include <cstdint>

namespace chainio::shim {

enum class Care : std::uint8_t {
    none = 0,        // goes on as it is
    descriptor = 1,  // when its first argument is a descriptor that something matches
    always = 2,
    sockets = 3,  // always, in a run that looks at sockets
};

struct Number {
    std::uint16_t number;
    Care care;
};
inline constexpr Number kNumbers[] = {
    {0, Care::descriptor},    // read
    {2, Care::always},        // open
    {3, Care::descriptor},    // close
    {9, Care::always},        // mmap
    {13, Care::always},       // rt_sigaction
    {17, Care::descriptor},   // pread64
    {19, Care::descriptor},   // readv
    {32, Care::descriptor},   // dup
    {33, Care::always},       // dup2
    {40, Care::always},       // sendfile
    {42, Care::sockets},      // connect
    {43, Care::sockets},      // accept
    {45, Care::descriptor},   // recvfrom
    {49, Care::sockets},      // bind
    {50, Care::sockets},      // listen
    {56, Care::always},       // clone
    {58, Care::always},       // vfork
    {59, Care::always},       // execve
    {72, Care::descriptor},   // fcntl
    {82, Care::always},       // rename
    {85, Care::always},       // creat
    {87, Care::always},       // unlink
    {157, Care::always},      // prctl
    {158, Care::always},      // arch_prctl
    {166, Care::always},      // umount2
    {206, Care::always},      // io_setup
    {221, Care::descriptor},  // fadvise64
    {232, Care::sockets},     // epoll_wait
    {233, Care::sockets},     // epoll_ctl
    {257, Care::always},      // openat
    {263, Care::always},      // unlinkat
    {264, Care::always},      // renameat
    {275, Care::descriptor},  // splice
    {281, Care::sockets},     // epoll_pwait
    {288, Care::sockets},     // accept4
    {292, Care::always},      // dup3
    {295, Care::descriptor},  // preadv
    {316, Care::always},      // renameat2
    {317, Care::always},      // seccomp
    {322, Care::always},      // execveat
    {326, Care::descriptor},  // copy_file_range
    {327, Care::descriptor},  // preadv2
    {425, Care::always},      // io_uring_setup
    {435, Care::always},      // clone3
    {436, Care::always},      // close_range
    {437, Care::always},      // openat2
    {441, Care::sockets},     // epoll_pwait2
};

constexpr Care care_of(std::uint64_t number) {
    for (const Number& row : kNumbers)
        if (row.number == number) return row.care;
    return Care::none;
}

}  // namespace chainio::shim
