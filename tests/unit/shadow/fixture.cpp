#include "tests/unit/shadow/fixture.h"

#include <linux/futex.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <list>

#include "compiler/diag/diag.h"
#include "compiler/passes/lower.h"
#include "compiler/sema/check.h"
#include "compiler/syntax/parse.h"
#include "runtime/shadow/stamps.h"

namespace chainio::shadow::test {
namespace {

std::string text_of(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// Of each of these pages whether it is in memory.
std::vector<bool> resident(const std::string& path, const Pages& pages) {
    std::vector<unsigned char> bits(pages.count);
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    void* at = mmap(nullptr, pages.count * 4096, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(pages.first * 4096));
    close(fd);
    if (at != MAP_FAILED) {
        mincore(at, pages.count * 4096, bits.data());
        munmap(at, pages.count * 4096);
    }
    std::vector<bool> there(pages.count);
    for (std::size_t i = 0; i < there.size(); i++) there[i] = (bits[i] & 1) != 0;
    return there;
}

}  // namespace

std::shared_ptr<const spec::Loaded> compiled(const std::string& text) {
    diag::Sources sources;
    diag::Diagnostics diagnostics;
    std::list<std::unique_ptr<ast::File>> imported;
    const auto parsed = [&](const std::string& name, const std::string& bytes) {
        imported.push_back(syntax::parse_chain(sources.add(name, bytes), sources, diagnostics));
        syntax::print_chain(*imported.back());
        return &*imported.back();
    };
    const auto find = [&](const std::string& path, FileId) {
        const std::string where = std::string(CHAINIO_LIBRARY) + "/" + path;
        if (!std::filesystem::exists(where)) return sema::Loaded{};
        return sema::Loaded{parsed(path, text_of(where)), path, {}};
    };
    auto* root = parsed("test.chain", text);
    auto checked = sema::check(*root, "test.chain", find, {}, diagnostics);
    EXPECT_FALSE(diagnostics.has_errors()) << diag::render_text(diagnostics, sources, false);
    if (!checked) return nullptr;
    ir::Artifact artifact;
    artifact.module = passes::lower(*checked);
    passes::run_passes(artifact.module);
    EXPECT_EQ(ir::validate(artifact.module), "");
    artifact.layout = ir::layout_of(artifact.module);
    artifact.bounds.resize(artifact.module.programs.size());
    return spec::Loaded::from_artifact(std::move(artifact));
}

Folder::Folder() {
    std::string path =
        std::filesystem::read_symlink("/proc/self/exe").parent_path().string() + "/chainio-shadow-XXXXXX";
    if (mkdtemp(path.data()) == nullptr) ADD_FAILURE() << "no directory can be made beside the test";
    path_ = path;
}

Folder::~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

std::string Folder::write(const std::string& name, const std::string& bytes) const {
    const std::string path = path_ + "/" + name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
}

void drop_pages(const std::string& path) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    ASSERT_GE(fd, 0) << path;
    struct stat info{};
    fstat(fd, &info);
    const std::uint64_t pages = (static_cast<std::uint64_t>(info.st_size) + 4095) / 4096;
    // The kernel leaves out what it has at work just then, which on a busy machine may be the whole file.
    EXPECT_TRUE(happens([&] {
        fsync(fd);
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        return pages_in_memory(path, 0, pages) == 0;
    })) << path;
    close(fd);
}

unsigned pages_in_memory(const std::string& path, std::uint64_t first, std::uint64_t count) {
    const std::vector<bool> there = resident(path, {first, count});
    return static_cast<unsigned>(std::ranges::count(there, true));
}

std::uint64_t Seen::look() {
    if (count_ == pages_.count) return count_;
    const std::vector<bool> now = resident(path_, pages_);
    for (std::size_t i = 0; i < seen_.size(); i++) {
        count_ += now[i] && !seen_[i] ? 1 : 0;
        seen_[i] = seen_[i] || now[i];
    }
    return count_;
}

bool come(const std::string& path, const std::vector<Pages>& pages) {
    std::vector<Seen> seen;
    for (const Pages& each : pages) seen.emplace_back(path, each);
    return happens([&] {
        bool all = true;
        for (Seen& each : seen) all = each.all() && all;
        return all;
    });
}

unsigned in_memory_besides(const std::string& path, std::uint64_t total, const std::vector<Pages>& these) {
    std::uint64_t next = 0;
    unsigned found = 0;
    for (const Pages& each : these) {
        found += pages_in_memory(path, next, each.first - next);
        next = each.first + each.count;
    }
    return found + pages_in_memory(path, next, total - next);
}

// A fault on a mapping reads around its page, unless the mapping is read in no order.
InMemory::InMemory(const std::string& path, std::uint64_t first, std::uint64_t count)
    : at_(MAP_FAILED), bytes_(count * 4096) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    at_ = mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(first * 4096));
    close(fd);
    EXPECT_NE(at_, MAP_FAILED) << path << " cannot be mapped: error " << errno;
    if (at_ == MAP_FAILED) return;
    EXPECT_EQ(madvise(at_, bytes_, MADV_RANDOM), 0);
    // The sanitizers' own mlock() does nothing.
    EXPECT_EQ(syscall(SYS_mlock, at_, bytes_), 0) << bytes_ << " bytes cannot be locked (ulimit -l): error " << errno;
}

InMemory::~InMemory() {
    if (at_ != MAP_FAILED) munmap(at_, bytes_);
}

bool happens(const std::function<bool()>& what) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!what()) {
        if (std::chrono::steady_clock::now() > end) return false;
        std::this_thread::yield();
    }
    return true;
}

bool until_settled(const std::string& path) {
    Unchanged seen;
    return happens([&] {
        struct stat info{};
        return stat(path.c_str(), &info) == 0 && is_settled(info, seen);
    });
}

Running::Running(std::unique_ptr<Server> server)
    : server_(std::move(server)), region_(server_->region_path()), thread_([this] {
          auto ended = server_->run([this] { return stop_.load(); });
          EXPECT_TRUE(ended) << ended.error();
      }) {}

void Running::stop() {
    if (!thread_.joinable()) return;
    stop_ = true;
    if (region_->asleep.exchange(0) == 1) syscall(SYS_futex, &region_->asleep, FUTEX_WAKE, 1, nullptr, nullptr, 0);
    thread_.join();
}

std::unique_ptr<Server> server_of(const std::string& spec, const ServerOptions& options) {
    auto loaded = compiled(spec);
    if (loaded == nullptr) return nullptr;
    auto server = Server::create(std::move(loaded), options);
    EXPECT_TRUE(server) << server.error();
    return server ? std::move(*server) : nullptr;
}

}  // namespace chainio::shadow::test
