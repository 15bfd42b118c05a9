// Services whose requests the kernel engine answers inside io_uring_enter: accept, receive, chain, reply, all by the
// program of bpf-templates/chainio_serve_bpf.h, in a thread that does nothing else. Which services those can be is in
// compiler/ir/kernel_handlers.h.
#pragma once
#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/engine/kernel_loop.h"

namespace chainio::engine {

struct KernelServerCounters {
    std::uint64_t accepted = 0, refused = 0, open = 0;
    std::uint64_t requests = 0, answered = 0, malformed = 0, failed = 0, unanswered = 0, timeouts = 0, vanished = 0;
    std::uint64_t bytes_in = 0, bytes_out = 0, partial_sends = 0, waited_sends = 0;
    std::uint64_t zero_copy_sends = 0, zero_copy_copied = 0, zero_copy_refused = 0;
};

class KernelServer {
  public:
    struct Options {
        unsigned connections = 1024;
        std::uint64_t timeout_ns = 0;
        std::uint32_t spin_us = 0;
        std::uint32_t zero_copy_bytes = 0;  // replies from that size on are sent without a copy; 0: none
        std::vector<ClassRank> ranks;
    };
    struct Listener {
        std::uint32_t service = 0;
        int fd = -1;  // stays the caller's
    };
    using FileOf = std::function<const OpenedFile*(const ir::CallFile&)>;

    // The files stay the caller's, and open for as long as this lives.
    static std::expected<std::unique_ptr<KernelServer>, std::string> create(std::shared_ptr<const spec::Loaded> spec,
                                                                            const std::vector<Listener>& listeners,
                                                                            const FileOf& file_of,
                                                                            const Options& options,
                                                                            metrics::Fallbacks& fallbacks);
    ~KernelServer();
    KernelServer(const KernelServer&) = delete;
    KernelServer& operator=(const KernelServer&) = delete;

    std::expected<void, std::string> start();
    // No connection is taken any more; those that are there end once what they have sent is answered.
    void drain();
    // Ends the thread without that. False: it is still there after so many ms, as its end waits for reads of a disk
    // that does not answer; whoever destroys this waits for them too.
    bool end_within(int milliseconds);
    // Readable once the thread has ended: drained, or failed.
    int poll_fd() const { return told_; }
    bool ended() const { return ended_.load(std::memory_order_acquire); }
    // Of a thread that has ended; empty: it ended as it was asked to.
    const std::string& failure() const { return failure_; }
    // Of all its listeners.
    KernelServerCounters counters(std::uint32_t service) const;
    // System calls of the thread, and calls of the program.
    std::uint64_t syscalls() const { return enters_.load(std::memory_order_relaxed); }
    std::uint64_t program_calls() const;
    std::uint32_t instructions_processed() const { return loop_->instructions_processed(); }  // by the verifier
    std::string describe() const;

  private:
    KernelServer(std::shared_ptr<const spec::Loaded> spec, std::vector<Listener> listeners, const Options& options)
        : spec_(std::move(spec)), listeners_(std::move(listeners)), options_(options) {}
    std::expected<void, std::string> prepare(const FileOf& file_of, metrics::Fallbacks& fallbacks);
    std::expected<void, std::string> add_files(const FileOf& file_of);
    void fill_site(std::uint32_t number, const ir::CallChain& call, const FileOf& file_of);
    void fill_service(std::uint32_t number, const Listener& listener);
    void begin_drain();
    bool drained() const;
    void work();
    std::string enter();
    cio_serve_head& head() const;
    cio_conn& connection(std::uint32_t index) const;

    std::shared_ptr<const spec::Loaded> spec_;
    std::vector<Listener> listeners_;
    Options options_;
    Serving serving_;
    std::unique_ptr<KernelLoop> loop_;
    std::vector<const OpenedFile*> files_;  // by slot of the file table
    int control_ = -1, told_ = -1;
    std::atomic<bool> wants_drain_ = false, wants_end_ = false, ended_ = false;
    std::atomic<std::uint64_t> enters_ = 0;
    std::string failure_;
    pthread_t thread_{};
    bool started_ = false;  // and not joined yet
};

}  // namespace chainio::engine
