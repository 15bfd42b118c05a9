#include "tools/chainio/store/sorter.h"

#include <unistd.h>

#include <algorithm>
#include <new>
#include <utility>

namespace chainio::store {
namespace {

constexpr std::size_t kLeastPiece = 64;  // entries of a run in memory while runs are merged

std::span<std::uint8_t> raw(std::span<Entry> entries) {
    return {reinterpret_cast<std::uint8_t*>(entries.data()), entries.size_bytes()};
}

}  // namespace

Sorter::Sorter(int scratch, std::size_t memory)
    : scratch_(scratch), most_(std::max(memory / sizeof(Entry), kLeastPiece)) {}

Sorter::~Sorter() { close(scratch_); }

// For all entries at once, as room costs nothing before it is written to: whoever grows has the old and the new room
// for a while. More than the machine has is not asked for.
void Sorter::take_room() {
    while (true) {
        try {
            return entries_.reserve(most_);
        } catch (const std::bad_alloc&) {
            if (most_ == kLeastPiece) throw;
            most_ = std::max(most_ / 2, kLeastPiece);
        }
    }
}

Done Sorter::add(const Entry& entry) {
    if (entries_.capacity() == 0) take_room();
    if (entries_.size() == most_) {
        if (auto spilled = spill(); !spilled) return spilled;
    }
    entries_.push_back(entry);
    count_++;
    return {};
}

Done Sorter::spill() {
    std::ranges::sort(entries_);
    auto written = write_at(scratch_, raw(entries_), spilled_ * sizeof(Entry));
    runs_.push_back({spilled_, entries_.size(), {}, 0});
    spilled_ += entries_.size();
    entries_.clear();
    return written;
}

Done Sorter::finish() {
    if (runs_.empty()) {  // all of them are in memory
        std::ranges::sort(entries_);
        runs_.push_back({0, 0, std::exchange(entries_, std::vector<Entry>()), 0});
    } else if (!entries_.empty()) {
        if (auto spilled = spill(); !spilled) return spilled;
    }
    entries_ = std::vector<Entry>();  // the pieces of the runs have its room
    piece_ = std::max(most_ / runs_.size(), kLeastPiece);
    for (std::size_t i = 0; i < runs_.size(); i++) {
        if (auto filled = refill(runs_[i]); !filled) return filled;
        if (!runs_[i].piece.empty()) heap_.push_back(i);
    }
    std::ranges::make_heap(heap_, [this](std::size_t a, std::size_t b) { return behind(a, b); });
    return {};
}

bool Sorter::behind(std::size_t a, std::size_t b) const {
    return runs_[b].piece[runs_[b].at] < runs_[a].piece[runs_[a].at];
}

Done Sorter::refill(Run& run) const {
    if (run.left == 0) return {};
    run.piece.resize(std::min<std::uint64_t>(run.left, piece_));
    run.at = 0;
    auto filled = read_at(scratch_, raw(run.piece), run.from * sizeof(Entry));
    run.from += run.piece.size();
    run.left -= run.piece.size();
    return filled;
}

std::expected<bool, std::string> Sorter::next(Entry& entry) {
    if (heap_.empty()) return false;
    const auto order = [this](std::size_t a, std::size_t b) { return behind(a, b); };
    std::ranges::pop_heap(heap_, order);
    Run& run = runs_[heap_.back()];
    entry = run.piece[run.at++];
    if (run.at == run.piece.size()) {
        run.piece.clear();
        if (auto filled = refill(run); !filled) return std::unexpected(filled.error());
        if (run.piece.empty()) {
            heap_.pop_back();
            return true;
        }
    }
    std::ranges::push_heap(heap_, order);
    return true;
}

void Sorter::clear() {
    entries_.clear();
    runs_.clear();
    heap_.clear();
    count_ = spilled_ = 0;
}

}  // namespace chainio::store
