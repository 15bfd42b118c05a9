// Comes before everything else in programs that use the C++ library's headers, which know glibc, with musl. Of that
// library they take what is in the headers alone, so that what its own code was compiled for does not matter.
#pragma once
#define __GLIBC_PREREQ(major, minor) 0  // asked without asking whether it is glibc
#define __locale_t locale_t             // a type of glibc's, of declarations that nobody uses
#include <bits/c++config.h>
// Templates that the library holds ready, from GCC 13 on parts of strings, are made here.
#undef _GLIBCXX_EXTERN_TEMPLATE
#define _GLIBCXX_EXTERN_TEMPLATE 0
#undef _GLIBCXX_USE_PTHREAD_COND_CLOCKWAIT  // found when the library was built for glibc; musl 1.2.3 has none of them
#undef _GLIBCXX_USE_PTHREAD_MUTEX_CLOCKLOCK
#undef _GLIBCXX_USE_PTHREAD_RWLOCK_CLOCKLOCK
// Names of <ctype.h> that std::ctype_base is declared with. No program here has a locale.
enum ClassesOfCharacters {
    _ISupper = 1 << 0,
    _ISlower = 1 << 1,
    _ISalpha = 1 << 2,
    _ISdigit = 1 << 3,
    _ISxdigit = 1 << 4,
    _ISspace = 1 << 5,
    _ISprint = 1 << 6,
    _ISblank = 1 << 7,
    _IScntrl = 1 << 8,
    _ISpunct = 1 << 9,
};
