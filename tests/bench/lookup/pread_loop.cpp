// The loop that most programs have: one pread after the other.
#include <unistd.h>

#include "tests/bench/lookup/block_cache.h"
#include "tests/bench/lookup/contender.h"
#include "tests/bench/lookup/os.h"

namespace chainio::bench {

Result run_pread(const Job& job) {
    auto file = File::open_direct(job.db);
    if (!file) return std::unexpected(file.error());
    const AlignedBlock buffer(job.page_size);
    BlockCache cache(job);
    Outcome outcome;
    outcome.value_hash.resize(job.keys.size());
    outcome.latency_ns.resize(job.keys.size());
    job.on_begin();
    const std::uint64_t begin = now_ns();
    std::uint64_t lookup_begin = begin;
    for (std::size_t i = 0; i < job.keys.size(); i++) {
        Descent at{Descent::Kind::child, job.root};
        for (unsigned level = 0; at.kind == Descent::Kind::child; level++) {
            std::span<const std::uint8_t> block = cache.find(at.page, level);
            if (block.empty()) {
                const auto offset = static_cast<off_t>(at.page - 1) * job.page_size;
                const ssize_t got = ::pread(file->fd(), buffer.bytes().data(), job.page_size, offset);
                if (got != static_cast<ssize_t>(job.page_size))
                    return std::unexpected(errno_text("pread of " + job.db));
                outcome.reads++;
                block = buffer.bytes().first(job.page_size);
                cache.keep(at.page, level, block);
            }
            at = job.descend(block, at.page, job.keys[i]);
        }
        if (at.kind == Descent::Kind::found) outcome.value_hash[i] = hash_value(at.value);
        const std::uint64_t end = now_ns();
        outcome.latency_ns[i] = static_cast<std::uint32_t>(end - lookup_begin);
        lookup_begin = end;
    }
    job.on_end();
    outcome.seconds = static_cast<double>(lookup_begin - begin) / 1e9;
    return outcome;
}

}  // namespace chainio::bench
