#include "tools/chainio/run/compile.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "tools/chainio/run/descriptor_name.h"
#include "tools/chainio/run/files.h"
#include "tools/chainio/run/held.h"

extern char** environ;

namespace chainio::run {
namespace {

constexpr std::size_t kMostOutput = 64 << 20;
// Nothing of it touches the file system, so nothing is left when chainc is killed. It finds them by the numbers that
// they have here, which no descriptor has that a spec may be named by.
struct Outputs {
    Descriptor artifact, dependencies, messages;
};
// What the compiler finds by the source's name instead, where this process has read that.
struct Text {
    Descriptor file;
    std::string name;
    int number = -1;  // in the compiler
};

Descriptor memory_file(const char* name) { return Descriptor(memfd_create(name, MFD_CLOEXEC)); }

std::string content(const Descriptor& file) {
    ::lseek(file.get(), 0, SEEK_SET);
    return read_whole(file.get(), kMostOutput).value_or("");
}

// By its own number, so that errors name it as the user did; a pipe with a name of its own has none.
std::optional<Text> text_of(const CompileRequest& request) {
    Text text{memory_file("source"), request.source, descriptor_named(request.source).value_or(-1)};
    if (!text.file || !write_whole(text.file.get(), *request.text)) return std::nullopt;
    if (text.number < 0) {
        text.number = text.file.get();
        text.name = fmt::format("/dev/fd/{}", text.number);
    }
    return text;
}

std::vector<std::string> words_of(const CompileRequest& request, const std::string& source, const Outputs& outputs) {
    std::vector<std::string> words{request.compiler,
                                   source,
                                   "-o",
                                   fmt::format("/dev/fd/{}", outputs.artifact.get()),
                                   "--write-deps",
                                   fmt::format("--deps-file=/dev/fd/{}", outputs.dependencies.get())};
    for (const std::string& dir : request.include_dirs) words.insert(words.end(), {"-I", dir});
    for (const std::string& param : request.params) words.insert(words.end(), {"-D", param});
    if (!request.stdlib.empty()) words.push_back("--stdlib=" + request.stdlib);
    const char* no_colour = std::getenv("NO_COLOR");
    const bool colour = ::isatty(2) == 1 && (no_colour == nullptr || *no_colour == 0);
    words.push_back(colour ? "--color=always" : "--color=never");
    return words;
}

int start(const std::vector<std::string>& words, const Text& text, const Outputs& outputs, pid_t& pid) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    // The program's standard input is not the compiler's.
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    if (text.file) posix_spawn_file_actions_adddup2(&actions, text.file.get(), text.number);
    posix_spawn_file_actions_adddup2(&actions, outputs.messages.get(), 1);
    posix_spawn_file_actions_adddup2(&actions, outputs.messages.get(), 2);
    // To the same number: from then on it stays open.
    for (const int fd : {outputs.artifact.get(), outputs.dependencies.get()})
        posix_spawn_file_actions_adddup2(&actions, fd, fd);
    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    std::vector<char*> environment;
    for (char** each = environ; *each != nullptr; each++)
        if (!is_for_loader(*each)) environment.push_back(*each);
    environment.push_back(nullptr);
    const int error = posix_spawn(&pid, words[0].c_str(), &actions, nullptr, argv.data(), environment.data());
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

// The files of a make rule's first line: blanks, `#` and `$` in names are escaped.
std::vector<std::string> prerequisites(std::string_view rule) {
    std::vector<std::string> names;
    std::string name;
    const auto finish = [&] {
        if (!name.empty()) names.push_back(std::move(name));
        name.clear();
    };
    for (std::size_t i = std::min(rule.find(": "), rule.find(":\n")); i < rule.size(); i++) {
        const char c = rule[i], next = i + 1 < rule.size() ? rule[i + 1] : '\0';
        if (name.empty() && c == ':' && names.empty()) continue;
        if (c == '\\' && next == '\n') {
            finish();
            i++;
        } else if ((c == '\\' && (next == ' ' || next == '#')) || (c == '$' && next == '$')) {
            name += next;
            i++;
        } else if (c == ' ') {
            finish();
        } else if (c == '\n') {
            break;
        } else {
            name += c;
        }
    }
    finish();
    return names;
}

}  // namespace

std::string_view remedy_of_start(int error) {
    switch (error) {
        case EAGAIN: return "; a limit of processes (`ulimit -u`, pids.max of the control group) is met: raise it";
        case EMFILE: return "; the limit of open files (`ulimit -n`) is met: raise it";
        default: return "";
    }
}

std::expected<Compiled, CompileError> compile(const CompileRequest& request) {
    const Outputs outputs{memory_file("artifact"), memory_file("dependencies"), memory_file("messages")};
    const auto text = request.text ? text_of(request) : Text{{}, request.source, -1};
    if (!outputs.artifact || !outputs.dependencies || !outputs.messages || !text) {
        return std::unexpected(CompileError{3, fmt::format("cannot make a file in memory: {}", std::strerror(errno))});
    }
    pid_t pid = -1;
    if (const int error = start(words_of(request, text->name, outputs), *text, outputs, pid); error != 0) {
        return std::unexpected(CompileError{
            3, fmt::format("cannot start {}: {}{}", request.compiler, std::strerror(error), remedy_of_start(error))});
    }
    int status = 0;
    pid_t waited = 0;
    while ((waited = ::waitpid(pid, &status, 0)) < 0 && errno == EINTR) {}
    if (waited < 0)
        return std::unexpected(
            CompileError{3, fmt::format("cannot wait for {}: {}", request.compiler, std::strerror(errno))});
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        std::string message = content(outputs.messages);
        while (message.ends_with('\n')) message.pop_back();
        if (message.empty()) message = fmt::format("{} ended without a word", request.compiler);
        return std::unexpected(CompileError{WIFEXITED(status) ? WEXITSTATUS(status) : 3, std::move(message)});
    }
    return Compiled{content(outputs.artifact), prerequisites(content(outputs.dependencies))};
}

}  // namespace chainio::run
