// The chain, through the C API as any program would use it.
#include <algorithm>
#include <array>
#include <memory>

#include "runtime/bindings/include/chainio.h"
#include "tests/bench/lookup/contender.h"

namespace chainio::bench {
namespace {

struct Close {
    void operator()(chainio_handle* handle) const { chainio_close(handle); }
};
using Handle = std::unique_ptr<chainio_handle, Close>;

std::uint64_t reads_done(const Handle& handle) {
    chainio_counters counters{};
    counters.size = sizeof counters;
    chainio_get_counters(handle.get(), &counters);
    return counters.ring_reads + counters.plain_reads + counters.page_cache_reads;
}

constexpr std::uint32_t batch = 256;  // completions taken at once

class Lookups {
  public:
    Lookups(const Job& job, Handle handle, std::uint32_t chain, std::uint64_t file)
        : job_(job), handle_(std::move(handle)), chain_(chain), file_(file) {
        outcome_.value_hash.resize(job.keys.size());
        outcome_.latency_ns.resize(job.keys.size());
    }

    Result run() {
        outcome_.note = chainio_describe(handle_.get());
        if (job_.warm_up && !warm_up()) return std::unexpected(chainio_error(handle_.get()));
        const std::uint64_t reads_before = reads_done(handle_);
        job_.on_begin();
        const std::uint64_t begin = now_ns();
        while (next_ < job_.depth && next_ < job_.keys.size()) {
            if (!submit()) return std::unexpected(chainio_error(handle_.get()));
        }
        while (ended_ < job_.keys.size()) {
            const std::size_t wanted = job_.kernel ? std::min<std::size_t>(next_ - ended_, batch) : 1;
            const int count =
                chainio_reap(handle_.get(), completions_.data(), batch, static_cast<std::uint32_t>(wanted));
            if (count < 0) return std::unexpected(chainio_error(handle_.get()));
            for (int i = 0; i < count; i++) take(completions_[static_cast<std::size_t>(i)]);
            ended_ += static_cast<std::size_t>(count);
            for (int i = 0; i < count && next_ < job_.keys.size(); i++) {
                if (!submit()) return std::unexpected(chainio_error(handle_.get()));
            }
        }
        outcome_.seconds = static_cast<double>(now_ns() - begin) / 1e9;
        job_.on_end();
        outcome_.reads = reads_done(handle_) - reads_before;
        return std::move(outcome_);
    }

  private:
    bool submit() {
        const chainio_arg args[] = {{CHAINIO_FILE, 0, file_, nullptr},
                                    {CHAINIO_SCALAR, 0, job_.root, nullptr},
                                    {CHAINIO_SCALAR, 0, job_.keys[next_], nullptr}};
        if (chainio_submit(handle_.get(), chain_, args, 3, next_) < 0) return false;
        next_++;
        return true;
    }

    bool warm_up() {
        if (!submit() || chainio_reap(handle_.get(), completions_.data(), 1, 1) != 1) return false;
        next_ = 0;
        return true;
    }

    void take(const chainio_completion& done) {
        outcome_.latency_ns[done.user_data] = static_cast<std::uint32_t>(done.ns);
        if (done.outcome != CHAINIO_OK) return;  // the hash stays 0, which is no value's
        const std::span record(static_cast<const std::uint8_t*>(done.bytes), done.length);
        outcome_.value_hash[done.user_data] = hash_value(job_.value_of(record));
    }

    const Job& job_;
    Handle handle_;
    std::uint32_t chain_;
    std::uint64_t file_;
    std::size_t next_ = 0, ended_ = 0;
    std::array<chainio_completion, batch> completions_{};
    Outcome outcome_;
};

}  // namespace

Result run_chain(const Job& job) {
    chainio_options options{};
    options.size = sizeof options;
    options.in_flight = job.depth;
    options.flags = job.kernel ? CHAINIO_KERNEL_ENGINE : 0;
    options.spin_us = job.spin_us;
    chainio_handle* raw = nullptr;
    if (chainio_open(job.spec.c_str(), &options, &raw) < 0) return std::unexpected(chainio_error(nullptr));
    Handle handle(raw);
    std::uint64_t file = 0;
    if (chainio_file_open(raw, "table", job.db.c_str(), CHAINIO_FILE_DIRECT, &file) < 0)
        return std::unexpected(chainio_error(raw));
    const int chain = chainio_find_chain(raw, "lookup");
    if (chain < 0) return std::unexpected(chainio_error(raw));
    return Lookups(job, std::move(handle), static_cast<std::uint32_t>(chain), file).run();
}

}  // namespace chainio::bench
