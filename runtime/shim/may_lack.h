// Functions that a libc before 2.34 has in libraries of their own (libdl, libpthread). The library names them by the
// version that they have had there and have still in libc, and does without in a program that is not linked to those:
// so it needs nothing of a libc that is newer than 2.17, and starts where a program brings its own older one.
#pragma once

#if defined(__x86_64__)
#define CHAINIO_FIRST_VERSION "GLIBC_2.2.5"
#else
#define CHAINIO_FIRST_VERSION "GLIBC_2.17"
#endif

// Its address is null then. Once in a source, outside of namespaces.
#define CHAINIO_MAY_LACK(name)                                      \
    __asm__(".symver " #name ", " #name "@" CHAINIO_FIRST_VERSION); \
    extern "C" decltype(name) name [[gnu::weak]]
