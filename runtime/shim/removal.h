// Calls that are refused while the server has some file open.
#pragma once
#include <cerrno>
#include <cstdint>

namespace chainio::shim {

enum class Answer : std::uint8_t { nobody, late, gone };
// Waits until the server has looked at what was posted before and has closed all files.
Answer have_closed_all();
// The same if it has any open.
Answer have_let_go_of_all();

// As libc says it, or as the kernel does.
inline bool is_refused(long result, int refusal) { return result == -refusal || (result == -1 && errno == refusal); }

// Calls `call`, and again where `refusal` may be due to files that the server has open. Once it has closed all, the
// reason is somebody else.
template <typename Call>
auto without_open_files(int refusal, Call call) {
    constexpr unsigned kMostAsked = 5;  // reads that are under way end in between
    const int before = errno;
    auto result = call();
    for (unsigned asked = 0; is_refused(result, refusal) && asked < kMostAsked; ++asked) {
        const Answer answer = have_let_go_of_all();
        if (answer == Answer::nobody) break;
        result = call();
        if (answer == Answer::gone) break;
    }
    if (result == 0) errno = before;
    return result;
}

}  // namespace chainio::shim
