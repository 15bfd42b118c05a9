#include "tools/chainio/run/handover.h"

#include <fcntl.h>
#include <sys/wait.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>

namespace chainio::run {
namespace {

constexpr char kVariable[] = "CHAINIO_STARTED";

template <typename Number>
bool take_number(std::string_view& text, Number& number) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end == text.data() + text.size() || *end != ' ') return false;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()) + 1);
    return true;
}

// Their count, and each.
bool take_numbers(std::string_view& text, std::vector<int>& numbers) {
    std::size_t count = 0;
    if (!take_number(text, count) || count > text.size()) return false;
    numbers.resize(count);
    return std::ranges::all_of(numbers, [&text](int& number) { return take_number(text, number); });
}

}  // namespace

std::string variable_of(const Started& started) {
    std::string text = std::string(kVariable) + "=" + std::to_string(started.program) + " " +
                       std::to_string(started.since_ns) + " " + std::to_string(started.signals) + " " +
                       std::to_string(started.lock) + " " + std::to_string(started.earlier.size()) + " ";
    for (const int child : started.earlier) text += std::to_string(child) + " ";
    return text + started.region;
}

std::optional<Started> take_started() {
    const char* value = std::getenv(kVariable);
    if (value == nullptr) return std::nullopt;
    const std::string kept(value);
    ::unsetenv(kVariable);
    std::string_view rest(kept);
    Started started;
    if (!take_number(rest, started.program) || !take_number(rest, started.since_ns) ||
        !take_number(rest, started.signals) || !take_number(rest, started.lock) ||
        !take_numbers(rest, started.earlier) || started.program <= 0)
        return std::nullopt;
    started.region = rest;
    siginfo_t info{};
    // A variable that came from elsewhere names no child of ours.
    if (::waitid(P_PID, static_cast<id_t>(started.program), &info, WEXITED | WNOHANG | WNOWAIT) != 0)
        return std::nullopt;
    ::fcntl(started.lock, F_SETFD, FD_CLOEXEC);
    return started;
}

}  // namespace chainio::run
