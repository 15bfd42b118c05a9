// What a program prints on standard output and says on standard error, and whether what it printed has arrived: on a
// full disk that shows only when the last of it is written. Nothing here throws where it cannot be written, as
// fmt::print() does: what the program has done, and the exit code that tells it, stay what they are.
#pragma once
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <utility>

namespace chainio::tool {

// Why the first of standard output that was lost could not be written, an errno; 0: nothing was.
inline int& printing_error() {
    static int error = 0;
    return error;
}

inline void print_text(std::string_view text) {
    // What is larger than the buffer fails here, and the flush at the end has no cause to tell any more.
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() && printing_error() == 0)
        printing_error() = errno;
}

template <typename... Values>
void print_out(fmt::format_string<Values...> form, Values&&... values) {
    print_text(fmt::format(form, std::forward<Values>(values)...));
}

inline void flush_printed() {
    if (std::fflush(stdout) != 0 && printing_error() == 0) printing_error() = errno;
}

template <typename... Values>
void say(fmt::format_string<Values...> form, Values&&... values) {
    std::fputs(fmt::format(form, std::forward<Values>(values)...).c_str(), stderr);
}

// What has ended a program: of no memory the standard library says no more than a name of its own.
inline const char* in_words(const std::exception& error) {
    if (dynamic_cast<const std::bad_alloc*>(&error) == nullptr) return error.what();
    return "out of memory; a limit of address space (`ulimit -v`) counts here, too";
}

// Why standard output could not be written; empty when it was.
inline std::string printing_trouble() {
    flush_printed();
    return printing_error() == 0 ? "" : std::strerror(printing_error());
}

inline void say_not_printed(const char* program, const char* why) {
    say("{}: cannot write standard output: {}; free some space, or redirect it elsewhere\n", program, why);
}

// The program's exit code: the one given, or else 3 with the cause.
inline int printed(const char* program, int exit_code) {
    const std::string trouble = printing_trouble();
    if (trouble.empty() || exit_code != 0) return exit_code;
    say_not_printed(program, trouble.c_str());
    return 3;
}

}  // namespace chainio::tool
