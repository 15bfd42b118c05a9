"""A library with liburing's functions for setting up a ring, for machines that have none."""

# As liburing does it: by a system call of its own, and one of its functions by another one.
LIBURING = """
#include <sys/syscall.h>
static long raw(long number, long a, long b) {
#if defined(__x86_64__)
    long done; __asm__ volatile("syscall" : "=a"(done) : "0"(number), "D"(a), "S"(b) : "rcx", "r11", "memory"); return done;
#else
    register long call __asm__("x8") = number; register long x0 __asm__("x0") = a; register long x1 __asm__("x1") = b;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(call), "r"(x1) : "memory"); return x0;
#endif
}
static char own[256];
int io_uring_setup(unsigned n, void* p) { return raw(SYS_io_uring_setup, n, (long)p); }
int io_uring_queue_init_params(unsigned n, void* ring, void* p) { long f = raw(SYS_io_uring_setup, n, (long)p); return f < 0 ? f : (*(int*)ring = f, 0); }
int io_uring_queue_init(unsigned n, void* ring, unsigned flags) { return io_uring_queue_init_params(n, ring, own); }
int io_uring_queue_init_mem(unsigned n, void* ring, void* p, void* m, unsigned long s) { int e = io_uring_queue_init_params(n, ring, p); return e ? e : 4096; }
"""
