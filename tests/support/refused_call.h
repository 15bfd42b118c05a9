// A kernel that refuses a system call, as an older one does, or one where somebody has switched it off.
#pragma once
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#include <cstddef>
#include <span>

namespace chainio::tests {

inline void filter_calls(std::span<sock_filter> lines) {
    const sock_fprog filter{static_cast<unsigned short>(lines.size()), lines.data()};
    ASSERT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    ASSERT_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter), 0);
}

// From here on, and in this thread alone: a test does it in one that ends with it.
inline void refuse_call(unsigned number, unsigned error) {
    sock_filter lines[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                           BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
                           BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
                           BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    filter_calls(lines);
}

// The same where the call's first argument is this one.
inline void refuse_call(unsigned number, unsigned error, unsigned first_argument) {
    sock_filter lines[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                           BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 3),
                           BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args)),
                           BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, first_argument, 0, 1),
                           BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
                           BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    filter_calls(lines);
}

}  // namespace chainio::tests
