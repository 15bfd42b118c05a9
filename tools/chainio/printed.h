// Whether what a program printed has arrived: on a full disk that shows only when the last of it is written.
#pragma once
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

namespace chainio::tool {

// Why standard output could not be written; empty when it was.
inline std::string printing_trouble() {
    errno = 0;
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return {};
    return errno != 0 ? std::strerror(errno) : "an earlier part of it was lost";
}

inline void say_not_printed(const char* program, const char* why) {
    std::fprintf(stderr, "%s: cannot write standard output: %s; free some space, or redirect it elsewhere\n", program,
                 why);
}

// The program's exit code: the one given, or else 3 with the cause.
inline int printed(const char* program, int exit_code) {
    const std::string trouble = printing_trouble();
    if (trouble.empty() || exit_code != 0) return exit_code;
    say_not_printed(program, trouble.c_str());
    return 3;
}

}  // namespace chainio::tool
