// What the C++ library's headers call in its compiled part. Nothing is thrown: such a program says what is wrong and
// ends.
#include <unistd.h>

#include <cstdlib>
#include <new>
#include <string_view>

namespace {

[[noreturn]] void fail(std::string_view what) {
    for (const std::string_view part : {std::string_view("chainio: "), what, std::string_view("\n")})
        if (::write(2, part.data(), part.size()) < 0) break;
    std::abort();
}

}  // namespace

void* operator new(std::size_t size) {
    void* at = std::malloc(size);
    if (at == nullptr) fail("there is no memory left");
    return at;
}
void operator delete(void* at) noexcept { std::free(at); }
void operator delete(void* at, std::size_t) noexcept { std::free(at); }

namespace std {

void __throw_length_error(const char* what) { fail(what); }
void __throw_logic_error(const char* what) { fail(what); }
void __throw_out_of_range_fmt(const char* what, ...) { fail(what); }
void __throw_bad_alloc() { fail("there is no memory left"); }
void __throw_bad_array_new_length() { fail("there is no memory left"); }

}  // namespace std
