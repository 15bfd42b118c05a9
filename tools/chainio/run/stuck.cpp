#include "tools/chainio/run/stuck.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/probe/sites.h"
#include "tools/chainio/run/files.h"
#include "tools/chainio/run/stops.h"

namespace chainio::run {
namespace {

enum class About : std::uint8_t { descriptor, path_below, ring };
struct Call {
    long number;
    std::string_view name;
    About about;  // what its first arguments are
};
// Those by which the server asks a file system something.
constexpr Call kCalls[] = {{SYS_openat, "openat", About::path_below},
                           {SYS_openat2, "openat2", About::path_below},
                           {SYS_newfstatat, "newfstatat", About::path_below},
                           {SYS_readlinkat, "readlinkat", About::path_below},
                           {SYS_statx, "statx", About::path_below},
                           {SYS_fstat, "fstat", About::descriptor},
                           {SYS_fstatfs, "fstatfs", About::descriptor},
                           {SYS_close, "close", About::descriptor},
                           {SYS_pread64, "pread", About::descriptor},
                           {SYS_preadv, "preadv", About::descriptor},
                           {SYS_preadv2, "preadv2", About::descriptor},
                           {SYS_readahead, "readahead", About::descriptor},
                           {SYS_fadvise64, "posix_fadvise", About::descriptor},
                           {SYS_getdents64, "getdents", About::descriptor},
                           {SYS_io_uring_enter, "io_uring_enter", About::ring}};

// What the kernel says of the system call that a process is in: "running" of one that has a processor or waits for one.
std::string syscall_of(int process) { return read_whole(fmt::format("/proc/{}/syscall", process), 512).value_or(""); }

// The number of the call and its arguments; nothing where the process is in none.
std::vector<std::uint64_t> words_of(std::string_view rest) {
    std::vector<std::uint64_t> words;
    while (!rest.empty()) {
        const bool hexadecimal = rest.starts_with("0x");
        if (hexadecimal) rest.remove_prefix(2);
        std::uint64_t word = 0;
        const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), word, hexadecimal ? 16 : 10);
        if (error != std::errc{}) break;
        words.push_back(word);
        rest.remove_prefix(std::min(static_cast<std::size_t>(end - rest.data()) + 1, rest.size()));
    }
    return words;
}

std::string text_at(int process, std::uint64_t place) {
    const Descriptor memory(::open(fmt::format("/proc/{}/mem", process).c_str(), O_RDONLY | O_CLOEXEC));
    std::array<char, 4096> text{};
    std::size_t bytes = text.size() - place % text.size();  // to the end of a page: the next one may not be there
    if (!memory) return {};
    const ssize_t got = ::pread(memory.get(), text.data(), bytes, static_cast<off_t>(place));
    bytes = got > 0 ? static_cast<std::size_t>(got) : 0;
    return {text.data(), std::find(text.data(), text.data() + bytes, '\0')};
}

std::string file_of(int process, std::uint64_t descriptor) {
    std::array<char, 4096> name{};
    const ssize_t got =
        ::readlink(fmt::format("/proc/{}/fd/{}", process, descriptor).c_str(), name.data(), name.size());
    return {name.data(), got > 0 ? static_cast<std::size_t>(got) : 0};
}

// A number is a descriptor's name in /proc/self/fd, by which the server opens what it has looked at.
std::string path_below(int process, std::uint64_t folder, const std::string& path) {
    int number = 0;
    const char* const end = path.data() + path.size();
    const auto [rest, error] = std::from_chars(path.data(), end, number);
    if (error == std::errc{} && rest == end) return file_of(process, static_cast<std::uint64_t>(number));
    if (path.starts_with('/') || static_cast<std::int32_t>(folder) < 0) return path;
    const std::string base = file_of(process, folder & 0xffffffff);
    return path.empty() ? base : fmt::format("{}/{}", base, path);  // without a path it is a look at the descriptor
}

// Of what the server has open itself.
constexpr std::string_view kOurs[] = {"/chainio-run.", "/memfd:", "/dev/", "/proc/"};

// A ring does not say which of its files a call is about: the server has these open.
std::string open_files(int process) {
    const std::string folder = fmt::format("/proc/{}/fd", process);
    const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(folder.c_str()),
                                                      [](DIR* open) { return open != nullptr ? ::closedir(open) : 0; });
    std::string first;
    unsigned others = 0;
    for (const dirent* each = nullptr; entries != nullptr && (each = ::readdir(entries.get())) != nullptr;) {
        std::string file = file_of(process, static_cast<std::uint64_t>(std::atoll(each->d_name)));
        const bool is_ours = std::ranges::any_of(kOurs, [&](std::string_view part) { return file.contains(part); });
        if (!file.starts_with('/') || is_ours) continue;
        if (first.empty()) {
            first = std::move(file);
        } else {
            others++;
        }
    }
    return others == 0 ? first : fmt::format("{} or {} other files", first, others);
}

std::string call_of(int process, std::string_view said) {
    const auto words = words_of(said);
    if (words.empty()) return "the kernel does not say which";
    const auto* const call = std::ranges::find(kCalls, static_cast<long>(words[0]), &Call::number);
    if (call == std::end(kCalls)) {
        const std::string_view name = probe::system_call_name(words[0]);
        return name.empty() ? fmt::format("system call {}", words[0]) : std::string(name);
    }
    std::string file;
    if (call->about == About::descriptor && words.size() > 1) file = file_of(process, words[1]);
    if (call->about == About::path_below && words.size() > 2)
        file = path_below(process, words[1], text_at(process, words[2]));
    if (call->about == About::ring) file = open_files(process);
    return file.empty() ? std::string(call->name) : fmt::format("{} of {}", call->name, file);
}

}  // namespace

std::string given_up(int server, int milliseconds) {
    const auto because = [&](std::string_view why) {
        return fmt::format("the server was given up {} s after the program's end: {}; what else it had to say is lost",
                           milliseconds / 1000, why);
    };
    if (is_stopped(server)) return because("a signal has stopped it (SIGSTOP)");
    const std::string said = syscall_of(server);
    if (said.starts_with("running")) return because("it was at work still, as on a busy machine");
    return fmt::format(
        "1 call was given up, which had not returned {} s after the program's end: {}; what else the server had to say "
        "is lost",
        milliseconds / 1000, call_of(server, said));
}

}  // namespace chainio::run
