// System calls that go past libc: they touch neither errno nor anything interposed, and are no cancellation points.
#pragma once
#include <sys/syscall.h>
#include <sys/uio.h>

#include <cstddef>

namespace chainio::shim {

// Returns what the kernel returns: minus the error on failure.
inline long raw_call(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0) {
#if defined(__x86_64__)
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
#else
#error "the preload library knows the system calls of x86-64 and aarch64"
#endif
}

inline long word(const volatile void* pointer) { return reinterpret_cast<long>(pointer); }
inline bool failed(long result) { return result < 0 && result >= -4095; }

// Bytes of the program, which may have given any address: the kernel reads them.
inline bool read_safely(long address, void* to, std::size_t bytes) {
    const iovec into{to, bytes}, from{reinterpret_cast<void*>(address), bytes};
    return raw_call(SYS_process_vm_readv, raw_call(SYS_getpid), word(&into), 1, word(&from), 1, 0) ==
           static_cast<long>(bytes);
}

}  // namespace chainio::shim
