// Call chains that run ahead of a program: their results are thrown away, what counts is that the pages which they read
// come into the page cache. The engine's reads are watched, so that the program's later reads of these pages are hits.
#pragma once
#include <array>
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/engine/engine.h"
#include "runtime/shadow/disk.h"
#include "runtime/shadow/files.h"
#include "runtime/shadow/marks.h"
#include "runtime/shadow/overtaken.h"
#include "runtime/shadow/ranges.h"
#include "runtime/shadow/score.h"
#include "runtime/umem/zeroed.h"

namespace chainio::shadow {

struct WalkRequest {
    std::uint32_t chain = 0;   // shadow chain that asks, by plan
    std::uint32_t target = 0;  // call chain
    ShadowFile* file = nullptr;
    std::array<std::uint64_t, 4> args{};
    std::optional<std::uint64_t> marks = {};  // the place that its result marks; none: the result is thrown away
    std::uint64_t waits = 0;                  // Overtaken::waits() when it was asked for
};

class Walks final : public ReadWatcher {
  public:
    struct Parts {
        std::shared_ptr<const spec::Loaded> spec;
        Files& files;
        Ranges& ranges;
        Score& score;
        metrics::Fallbacks& fallbacks;
        Marks& marks;
    };
    static std::expected<std::unique_ptr<Walks>, std::string> create(const Parts& parts, unsigned in_flight,
                                                                     std::size_t memory_bytes);
    Disk& disk() { return *disk_; }
    Overtaken& overtaken() { return overtaken_; }

    enum class Started : std::uint8_t { yes, duplicate, refused, full };
    Started start(const WalkRequest& request, std::uint64_t now_ns);
    // Runs what can run without waiting; takes over completions.
    std::expected<void, std::string> advance();
    unsigned in_flight() const { return engine_->in_flight(); }
    // None goes on behind the read that it waits for, of which nobody hears any more.
    void give_up();
    void file_closes(const ShadowFile& file);

    std::uint32_t read_begins(const engine::ReadOp& op) override;
    void read_done(std::uint32_t number, std::int32_t result) override;
    bool read_on_its_way(const engine::ReadOp& op) const override;
    void read_in_memory(const engine::ReadOp& op) override;
    void read_at_once(const engine::ReadOp& op) override;

    const engine::Engine& engine() const { return *engine_; }
    const std::vector<std::uint64_t>& outcomes() const { return outcomes_; }  // of ended walks, by number
    std::uint64_t refused() const { return refused_; }

  private:
    struct Slot {
        std::uint32_t chain = 0;
        ShadowFile* file = nullptr;
        std::uint32_t device_reads = 0;
        bool ours = false;        // the last block was fetched ahead already
        std::uint64_t found = 0;  // where the last block lies that was in memory, and how long it is
        std::uint32_t found_length = 0;
        std::uint64_t waits = 0;
        std::uint32_t again = 0;  // bytes of its last read, if that is to be tried again
        std::optional<std::uint64_t> marks;
        std::uint32_t next_free = kNoRange;
    };
    // Of a read that the ring was given.
    struct Handed {
        std::uint32_t chain = 0, bytes = 0, slot = 0;
    };
    struct OpenFile {
        const ShadowFile* file = nullptr;
        std::uint32_t file_class = 0;
        engine::FileHandle handle = 0;
        std::uint64_t used = 0;
        std::vector<std::uint64_t> header;
    };
    struct Recent {
        std::uint64_t hash = 0, at_ns = 0;
    };
    Walks(const Parts& parts, unsigned in_flight);
    OpenFile* open_in_engine(ShadowFile& file, std::uint32_t file_class);
    bool make_room();
    static std::uint64_t hash_of(const WalkRequest& request);
    void ended(const engine::Completion& completion);
    void tried_in_vain(const Slot& slot);
    void was_in_memory(const Slot& slot);

    Parts parts_;
    Disk* disk_ = nullptr;  // the engine's back end
    std::vector<Slot> slots_;
    std::uint32_t free_slot_ = 0;
    std::vector<Handed> handed_;  // by the number of its range
    std::vector<OpenFile> open_;
    std::vector<std::uint64_t> key_of_file_;  // by the engine's file slot
    umem::ZeroedVector<Recent> recent_;
    std::vector<engine::Completion> done_;
    std::vector<std::uint64_t> outcomes_;
    std::uint64_t uses_ = 0, refused_ = 0;
    Overtaken overtaken_;
    std::unique_ptr<engine::Engine> engine_;  // the last: as it ends it tells of reads that the device has still had
};

}  // namespace chainio::shadow
