// What of a new edition takes longest, made by a thread of its own while requests go on: the artifact is read, the file
// systems of its files are waited for, and the engine's memory is taken and gathered into huge pages.
#pragma once
#include <atomic>
#include <expected>
#include <memory>
#include <optional>
#include <thread>

#include "tools/chainio-runtime/edition.h"

namespace chainio::runtime_tool {

struct Prepared {
    std::shared_ptr<const spec::Loaded> loaded;
    engine::Engine::Memory memory;
};
// `loaded` may be null: then the artifact is read. That there is no memory for an edition is a problem like others.
std::expected<Prepared, Problem> prepare(const Options& options, std::shared_ptr<const spec::Loaded> loaded);
// The edition that was prepared, with its files open. With `serving` a server is there already, which takes it over:
// none of its endpoints can be inside the kernel.
std::expected<std::unique_ptr<Edition>, Problem> complete(const Options& options, Prepared prepared, ring::Shared* ring,
                                                          bool serving);

class Preparation {
  public:
    // The options outlive it. Null where no thread or no descriptor can be had.
    static std::unique_ptr<Preparation> begin(const Options& options, std::shared_ptr<const spec::Loaded> loaded);
    ~Preparation();
    Preparation(const Preparation&) = delete;
    Preparation& operator=(const Preparation&) = delete;

    int fd() const { return fd_; }  // readable once it is done
    bool is_done() const { return done_.load(std::memory_order_acquire); }
    // Once it is done, and once only.
    std::expected<Prepared, Problem> take();

  private:
    explicit Preparation(int fd) : fd_(fd) {}
    void run(const Options& options, std::shared_ptr<const spec::Loaded> loaded);

    const int fd_;
    std::optional<std::expected<Prepared, Problem>> result_;  // the thread's until it is done
    std::atomic<bool> done_ = false;
    std::thread thread_;
};

}  // namespace chainio::runtime_tool
