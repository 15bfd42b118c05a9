// What the C++ library's headers call in its compiled part. Nothing is thrown: such a program says what is wrong and
// ends.
#include <unistd.h>

#include <cstdlib>
#include <new>
#include <string_view>

#include "tools/chainio/start/small/arena.h"

namespace {

// Twice what a start takes; what does not fit comes from malloc.
constinit chainio::start::Arena<std::size_t{64} << 10> from_the_start;

[[noreturn]] void fail(std::string_view what) {
    for (const std::string_view part : {std::string_view("chainio: "), what, std::string_view("\n")})
        if (::write(2, part.data(), part.size()) < 0) break;
    std::abort();
}

}  // namespace

void* operator new(std::size_t size) {
    if (void* at = from_the_start.take(size)) return at;
    void* at = std::malloc(size);
    if (at == nullptr) fail("there is no memory left");
    return at;
}
void operator delete(void* at) noexcept {
    if (!from_the_start.give_back(at)) std::free(at);
}
void operator delete(void* at, std::size_t) noexcept { operator delete(at); }

namespace std {

void __throw_length_error(const char* what) { fail(what); }
void __throw_logic_error(const char* what) { fail(what); }
void __throw_out_of_range_fmt(const char* what, ...) { fail(what); }
void __throw_bad_alloc() { fail("there is no memory left"); }
void __throw_bad_array_new_length() { fail("there is no memory left"); }

}  // namespace std
