#include "compiler/backends/clang.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <sstream>
#include <system_error>
#include <utility>

namespace chainio::backends {
namespace fs = std::filesystem;
namespace {

std::string temp_root() {
    const char* root = std::getenv("TMPDIR");
    return root != nullptr && *root != '\0' ? root : "/tmp";
}

bool is_program(const std::string& path) { return access(path.c_str(), X_OK) == 0 && fs::is_regular_file(path); }

std::string on_path(const std::string& name) {
    const char* path = std::getenv("PATH");
    std::stringstream list(path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin");
    for (std::string dir; std::getline(list, dir, ':');) {
        std::string candidate = (dir.empty() ? "." : dir) + "/" + name;
        std::error_code ignored;
        if (is_program(candidate)) return fs::absolute(candidate, ignored).string();
    }
    return "";
}

class SpawnActions {
  public:
    SpawnActions() { posix_spawn_file_actions_init(&actions_); }
    SpawnActions(const SpawnActions&) = delete;
    SpawnActions& operator=(const SpawnActions&) = delete;
    ~SpawnActions() { posix_spawn_file_actions_destroy(&actions_); }
    posix_spawn_file_actions_t* get() { return &actions_; }

  private:
    posix_spawn_file_actions_t actions_;
};

// The environment is reduced to what cannot change the output.
std::expected<pid_t, std::string> start(const std::string& clang, const TempDir& dir, const ClangJob& job,
                                        const std::string& log) {
    std::vector<std::string> texts = {clang};
    texts.insert(texts.end(), job.arguments.begin(), job.arguments.end());
    std::vector<char*> argv;
    for (std::string& text : texts) argv.push_back(text.data());
    argv.push_back(nullptr);
    const char* path = std::getenv("PATH");
    std::string env_path = std::string("PATH=") + (path != nullptr ? path : "/usr/bin:/bin"),
                env_tmp = "TMPDIR=" + dir.path(), env_locale = "LC_ALL=C";
    char* env[] = {env_path.data(), env_tmp.data(), env_locale.data(), nullptr};

    SpawnActions actions;
    posix_spawn_file_actions_addchdir_np(actions.get(), dir.path().c_str());
    posix_spawn_file_actions_addopen(actions.get(), 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(actions.get(), 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(actions.get(), 2, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    pid_t pid = -1;
    int error = Interruption::start(pid, clang.c_str(), *actions.get(), argv.data(), env);
    if (error != 0) return std::unexpected(fmt::format("cannot start {}: {}", clang, std::strerror(error)));
    return pid;
}

// Nothing when it went well.
std::string finish(pid_t pid, const std::string& clang, const ClangJob& job, const std::string& log) {
    int status = 0;
    if (Interruption::wait(pid, status) < 0) return fmt::format("cannot wait for {}: {}", clang, std::strerror(errno));
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
    std::vector<std::uint8_t> said = read_bytes(log);
    std::string how = WIFSIGNALED(status) ? fmt::format("was ended by signal {}", WTERMSIG(status))
                                          : fmt::format("failed with status {}", WEXITSTATUS(status));
    const std::string words =
        said.empty() ? " and said nothing" : "; it said:\n" + std::string(said.begin(), said.end());
    return fmt::format(
        "{} {} on {}{}\nhint: this clang may lack the target or lld (Debian: apt-get install clang-19 lld-19); "
        "`--clang PROGRAM` names another",
        clang, how, job.what, words);
}

}  // namespace

std::vector<std::uint8_t> read_bytes(const std::string& path) {
    const std::unique_ptr<FILE, int (*)(FILE*)> in(std::fopen(path.c_str(), "rbe"),
                                                   [](FILE* file) { return file != nullptr ? std::fclose(file) : 0; });
    if (in == nullptr) return {};
    std::vector<std::uint8_t> all;
    std::array<std::uint8_t, 65'536> piece;
    while (const std::size_t count = std::fread(piece.data(), 1, piece.size(), in.get()))
        all.insert(all.end(), piece.begin(), piece.begin() + count);
    if (std::ferror(in.get()) != 0) all.clear();
    return all;
}

std::expected<TempDir, std::string> TempDir::make() {
    TempDir dir;
    // Absolute, as clang runs inside of it and is given names of files there.
    std::error_code error;
    std::string path = (fs::absolute(temp_root(), error) / "chainc.XXXXXX").string();
    if (!error && mkdtemp(path.data()) == nullptr) error.assign(errno, std::generic_category());
    if (error)
        return std::unexpected(
            fmt::format("cannot make a directory in {}: {}\nhint: set TMPDIR to one that can be written", temp_root(),
                        error.message()));
    dir.path_ = std::move(path);
    return dir;
}

TempDir::TempDir(TempDir&& other) noexcept
    : interruption_(std::move(other.interruption_)), path_(std::exchange(other.path_, "")) {}

TempDir::~TempDir() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
}

std::expected<std::string, std::string> find_clang(const std::string& wanted) {
    if (wanted.contains('/')) {
        if (is_program(wanted)) return fs::absolute(wanted).string();
        return std::unexpected(fmt::format("{} is not a program; name a clang of version 18 or newer", wanted));
    }
    std::vector<std::string> names =
        wanted.empty() ? std::vector<std::string>{"clang-19", "clang-20", "clang-18", "clang"} : std::vector{wanted};
    for (const std::string& name : names)
        if (std::string path = on_path(name); !path.empty()) return path;
    std::string tried =
        wanted.empty() ? "clang-19, clang-20, clang-18 and clang were looked for" : wanted + " was looked for";
    return std::unexpected(fmt::format(
        "no clang on PATH ({}); it compiles the step programs. Install it (Debian: apt-get install clang-19 lld-19)",
        tried));
}

std::expected<std::vector<std::vector<std::uint8_t>>, std::string> run_clang(const std::string& clang,
                                                                             const TempDir& dir,
                                                                             const std::vector<ClangJob>& jobs) {
    std::string failure;
    std::vector<pid_t> pids;
    auto log_of = [&](std::size_t i) { return dir.file(fmt::format("log.{}", i)); };
    for (std::size_t i = 0; i < jobs.size() && failure.empty(); i++) {
        auto pid = start(clang, dir, jobs[i], log_of(i));
        if (pid) {
            pids.push_back(*pid);
        } else {
            failure = pid.error();
        }
    }
    for (std::size_t i = 0; i < pids.size(); i++) {
        std::string said = finish(pids[i], clang, jobs[i], log_of(i));
        if (failure.empty()) failure = said;
    }
    if (!failure.empty()) return std::unexpected(failure);
    std::vector<std::vector<std::uint8_t>> outputs;
    for (const ClangJob& job : jobs) {
        outputs.push_back(read_bytes(dir.file(job.output)));
        if (outputs.back().empty())
            return std::unexpected(
                fmt::format("{} wrote nothing for {}, or nothing that can be read; is the disk of {} full, or broken?",
                            clang, job.what, dir.path()));
    }
    return outputs;
}

}  // namespace chainio::backends
