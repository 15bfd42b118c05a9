#include "tools/chainio/testing/workspace.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "compiler/diag/utf8.h"

namespace fs = std::filesystem;

namespace chainio::testing {
namespace {

constexpr std::uintmax_t kLargestFile = std::uintmax_t{1} << 30;

struct Ran {
    int code = 0;
    std::string output;
};

constexpr int kTellAgainMs = 100;

// All that is written until nobody holds the other end any more.
std::string output_of(int end, pid_t child) {
    std::string output;
    std::array<char, 4096> buffer{};
    for (;;) {
        pollfd waited{.fd = end, .events = POLLIN, .revents = 0};
        const int ready = ::poll(&waited, 1, kTellAgainMs);
        if (ready == 0) backends::Interruption::tell_again(child);
        if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
        const ssize_t got = read(end, buffer.data(), buffer.size());
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return output;
        output.append(buffer.data(), static_cast<std::size_t>(got));
    }
}

// Runs a program with its output collected; the shell only sees commands that the user wrote.
std::expected<Ran, std::string> run(const std::vector<std::string>& command, const std::string& folder,
                                    const std::vector<std::string>& extra_environment) {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) return std::unexpected(std::string(std::strerror(errno)));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
    std::vector<char*> words, environment;
    for (const auto& word : command) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    for (char** entry = environ; *entry != nullptr; entry++) environment.push_back(*entry);
    for (const auto& entry : extra_environment) environment.push_back(const_cast<char*>(entry.c_str()));
    environment.push_back(nullptr);
    pid_t child = 0;
    const int error = backends::Interruption::start(child, words[0], actions, words.data(), environment.data());
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    Ran ran;
    if (error == 0) ran.output = output_of(ends[0], child);
    close(ends[0]);
    int status = 0;
    if (error == 0) backends::Interruption::wait(child, status);
    // One that was under way has been ended, which is no failure of its own.
    if (backends::Interruption::asked()) return std::unexpected(std::string("interrupted"));
    if (error != 0)
        return std::unexpected(fmt::format("cannot run {}: {}", diag::escaped(command[0]), std::strerror(error)));
    ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return ran;
}

bool on_path(const std::string& program) {
    const char* path = std::getenv("PATH");
    std::string folders = std::string(path == nullptr ? "" : path) + ":/usr/sbin:/sbin";
    for (std::size_t at = 0; at < folders.size();) {
        const std::size_t end = std::min(folders.find(':', at), folders.size());
        if (access((folders.substr(at, end - at) + "/" + program).c_str(), X_OK) == 0) return true;
        at = end + 1;
    }
    return false;
}

// chainc lies beside chainio, in the build tree and when installed.
std::string chainc() {
    if (const char* named = std::getenv("CHAINC"); named != nullptr && *named != '\0') return named;
    std::error_code error;
    const fs::path self = fs::read_symlink("/proc/self/exe", error);
    const fs::path beside = self.parent_path() / "chainc";
    return !error && access(beside.c_str(), X_OK) == 0 ? beside.string() : "chainc";
}

std::string last_line(std::string text) {
    text.resize(text.find_last_not_of("\n\r ") + 1);
    return text.substr(text.rfind('\n') + 1);
}

}  // namespace

Workspace::Workspace(const Suite& suite) : interruption_(std::make_unique<backends::Interruption>()), suite_(&suite) {
    std::error_code error;
    spec_folder_ = fs::absolute(fs::path(suite.path), error).parent_path().string();
}

Workspace::Workspace(Workspace&& other) noexcept
    : interruption_(std::move(other.interruption_)),
      suite_(other.suite_),
      folder_(std::exchange(other.folder_, {})),
      spec_folder_(std::move(other.spec_folder_)),
      loaded_(std::move(other.loaded_)) {}

Workspace::~Workspace() {
    std::error_code ignored;
    if (!folder_.empty()) fs::remove_all(folder_, ignored);
}

std::expected<Workspace, Trouble> Workspace::make(const Suite& suite) {
    Workspace workspace(suite);
    const char* base = std::getenv("TMPDIR");
    std::string pattern = std::string(base != nullptr && *base != '\0' ? base : "/tmp") + "/chainio-test-XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) {
        return std::unexpected(Trouble{
            false, fmt::format("cannot make a temporary folder {}: {}; set TMPDIR to a folder that can be written",
                               diag::escaped(pattern), std::strerror(errno))});
    }
    workspace.folder_ = std::move(pattern);
    return workspace;
}

std::expected<void, Trouble> Workspace::prepare() {
    for (const auto& program : suite_->needs) {
        if (!on_path(program))
            return std::unexpected(Trouble{true, fmt::format("this machine has no {}", diag::escaped(program))});
    }
    for (const auto& command : suite_->commands) {
        auto ran = run({"/bin/sh", "-c", command}, folder_, {"SPEC_DIR=" + spec_folder_});
        if (!ran) return std::unexpected(Trouble{false, ran.error()});
        if (ran->code == 77) return std::unexpected(Trouble{true, diag::escaped(last_line(ran->output))});
        if (ran->code != 0)
            return std::unexpected(
                Trouble{false, fmt::format("the command `{}` ends with exit code {}:\n{}", diag::escaped(command),
                                           ran->code, diag::escaped_lines(ran->output))});
    }
    return {};
}

std::string Workspace::beside(const std::string& path) const {
    if (fs::path(path).is_absolute()) return path;
    std::error_code error;
    const fs::path made = fs::path(folder_) / path;
    return fs::exists(made, error) ? made.string() : (fs::path(spec_folder_) / path).string();
}

std::expected<std::string, Trouble> Workspace::compile() const {
    std::error_code error;
    std::string spec = beside(suite_->spec);
    if (!fs::exists(spec, error)) spec = suite_->spec;  // chainc knows the library's specs by name
    if (spec.ends_with(".o")) return spec;
    const std::string artifact = folder_ + "/spec.bpf.o";
    std::vector<std::string> command{chainc(), spec, "-o", artifact};
    const auto& options = suite_->options;
    command.insert(command.end(), options.begin(), options.end());
    // chainc writes one: that which a suite asks for is its own.
    const auto is_map = [](const std::string& option) { return option.starts_with("--source-map"); };
    if (std::ranges::none_of(options, is_map)) command.insert(command.end(), {"--source-map", source_map()});
    auto ran = run(command, spec_folder_, {});
    if (!ran && backends::Interruption::asked()) return std::unexpected(Trouble{false, ran.error()});
    if (!ran)
        return std::unexpected(Trouble{false, ran.error() + "; install chainc beside chainio, or name it in CHAINC"});
    if (ran->code != 0)
        return std::unexpected(Trouble{false, fmt::format("{} does not compile `{}`:\n{}", diag::escaped(command[0]),
                                                          diag::escaped(spec), diag::escaped_lines(ran->output))});
    return artifact;
}

std::string Workspace::source_map() const { return folder_ + "/spec.map"; }

std::expected<Bytes, std::string> Workspace::load(const FileSource& source) {
    if (source.path.empty()) return source.bytes;
    const std::string path = beside(source.path);
    std::error_code error;
    const std::uintmax_t size = fs::file_size(path, error);
    if (error) return std::unexpected(fmt::format("cannot read {}: {}", path, error.message()));
    if (size > kLargestFile)
        return std::unexpected(
            fmt::format("{} is larger than 1 GiB; `chainio call` runs chains over large files", path));
    Bytes bytes(size);
    std::ifstream in(path, std::ios::binary);
    in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(size));
    if (in.eof())  // as of files that the kernel makes up, and of one that is written anew
        return std::unexpected(
            fmt::format("cannot read {}: it ends after {} of its {} bytes", path, in.gcount(), size));
    if (!in) return std::unexpected(fmt::format("cannot read {}: {}", path, std::strerror(errno)));
    return bytes;
}

std::expected<const Bytes*, std::string> Workspace::file(const std::string& name) {
    if (const auto found = loaded_.find(name); found != loaded_.end()) return &found->second;
    const FileSource& source = suite_->files.at(name);
    auto bytes = load(source.of.empty() ? source : suite_->files.at(source.of));
    if (!bytes) return std::unexpected(bytes.error());
    if (source.size) {
        if (*source.size > kLargestFile) return std::unexpected(fmt::format("'{}' would be larger than 1 GiB", name));
        bytes->resize(*source.size);
    }
    for (const auto& patch : source.patches) {
        if (patch.at > bytes->size() || bytes->size() - patch.at < patch.bytes.size()) {
            return std::unexpected(
                fmt::format("the patch at {} lies outside of '{}', which has {} bytes", patch.at, name, bytes->size()));
        }
        std::copy(patch.bytes.begin(), patch.bytes.end(), bytes->begin() + static_cast<std::ptrdiff_t>(patch.at));
    }
    return &loaded_.emplace(name, std::move(*bytes)).first->second;
}

}  // namespace chainio::testing
