// Lists of indices, one a priority class: the most urgent class first, classes of one priority by their weights.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace chainio::engine {

inline constexpr std::uint32_t kNoIndex = UINT32_MAX;

struct ClassRank {
    std::uint32_t priority = 0;  // 0 is the most urgent
    std::uint32_t weight = 1;
};

struct QueueLink {
    std::uint32_t next = kNoIndex, prev = kNoIndex;
};

// `Links` gives an item's link: QueueLink& operator()(std::uint32_t index).
template <typename Links>
class PriorityQueue {
  public:
    PriorityQueue(const std::vector<ClassRank>& ranks, Links links) : links_(links) {
        for (std::uint32_t i = 0; i < ranks.size(); i++) {
            lists_.push_back(
                {.rank = i, .priority = ranks[i].priority, .stride = kScale / std::max(ranks[i].weight, 1u)});
        }
        std::sort(lists_.begin(), lists_.end(), [](const List& a, const List& b) {
            return a.priority != b.priority ? a.priority < b.priority : a.rank < b.rank;
        });
        for (std::uint32_t i = 0; i < lists_.size(); i++) {
            if (i == 0 || lists_[i].priority != lists_[i - 1].priority) time_.push_back(0);
            lists_[i].level = static_cast<std::uint32_t>(time_.size() - 1);
        }
        place_.resize(ranks.size());
        for (std::uint32_t i = 0; i < lists_.size(); i++) place_[lists_[i].rank] = i;
    }

    bool empty() const { return size_ == 0; }
    std::uint32_t size() const { return size_; }

    void push(std::uint32_t rank, std::uint32_t index) {
        List& list = lists_[place_[rank]];
        links_(index) = {kNoIndex, list.tail};
        if (list.tail == kNoIndex) {
            // A class that was idle has no claim on the time that it did not use.
            list.pass = std::max(list.pass, time_[list.level]);
            list.head = index;
        } else {
            links_(list.tail).next = index;
        }
        list.tail = index;
        list.count++;
        size_++;
    }
    // Puts an item back to where pop() took it from; its class has had nothing by it.
    void push_front(std::uint32_t rank, std::uint32_t index) {
        List& list = lists_[place_[rank]];
        list.pass -= std::min(list.pass, list.stride);
        links_(index) = {list.head, kNoIndex};
        (list.head == kNoIndex ? list.tail : links_(list.head).prev) = index;
        list.head = index;
        list.count++;
        size_++;
    }
    void remove(std::uint32_t rank, std::uint32_t index) {
        List& list = lists_[place_[rank]];
        const QueueLink link = links_(index);
        (link.prev == kNoIndex ? list.head : links_(link.prev).next) = link.next;
        (link.next == kNoIndex ? list.tail : links_(link.next).prev) = link.prev;
        list.count--;
        size_--;
    }
    std::uint32_t pop() {
        return pop([](std::uint32_t) { return true; });
    }
    // Of the classes that may have an item now, by their ranks. The others have no claim on the time meanwhile.
    template <typename May>
    std::uint32_t pop(const May& may) {
        if (size_ == 0) return kNoIndex;
        List* best = nullptr;
        for (List& list : lists_) {
            if (best != nullptr && list.priority != best->priority) break;
            if (list.head == kNoIndex || !may(list.rank)) continue;
            if (best == nullptr || list.pass < best->pass) best = &list;
        }
        if (best == nullptr) return kNoIndex;
        for (List& list : lists_)
            if (!may(list.rank) && list.priority == best->priority) list.pass = std::max(list.pass, best->pass);
        const std::uint32_t index = best->head;
        best->head = links_(index).next;
        (best->head == kNoIndex ? best->tail : links_(best->head).prev) = kNoIndex;
        time_[best->level] = best->pass;
        if (best->pass >= kFar) begin_time_anew(best->level);
        best->pass += best->stride;
        best->count--;
        size_--;
        return index;
    }

    // Takes the one of the least urgent that pop() would come to last. So each class of a priority keeps what its
    // weight lets it have, whichever sends the most, and one that was taken lately makes room for one that was not.
    std::uint32_t pop_least() {
        const List* least = nullptr;
        for (auto list = lists_.rbegin(); list != lists_.rend(); ++list) {
            if (list->tail == kNoIndex) continue;
            if (least != nullptr && list->priority != least->priority) break;
            if (least == nullptr || list->last_turn() > least->last_turn()) least = &*list;
        }
        if (least == nullptr) return kNoIndex;
        const std::uint32_t index = least->tail;
        remove(least->rank, index);
        return index;
    }

    // The one that was put in first of the least urgent class, where that is less urgent than `priority`.
    std::uint32_t oldest_below(std::uint32_t priority) const {
        for (auto list = lists_.rbegin(); list != lists_.rend() && list->priority > priority; ++list)
            if (list->head != kNoIndex) return list->head;
        return kNoIndex;
    }

  private:
    static constexpr std::uint64_t kScale = 1u << 20, kFar = std::uint64_t{1} << 40;
    struct List {
        std::uint32_t rank = 0, priority = 0, level = 0;
        std::uint64_t stride = kScale, pass = 0;
        std::uint32_t head = kNoIndex, tail = kNoIndex;
        std::uint32_t count = 0;

        std::uint64_t last_turn() const { return pass + (count - 1) * stride; }
    };
    // So that no pass ever overflows. Those of idle classes that have fallen behind have no claim either way.
    void begin_time_anew(std::uint32_t level) {
        for (List& list : lists_) {
            if (list.level == level) list.pass -= std::min(list.pass, time_[level]);
        }
        time_[level] = 0;
    }

    Links links_;
    std::vector<List> lists_;
    std::vector<std::uint64_t> time_;  // of each priority: the pass of what was taken last
    std::vector<std::uint32_t> place_;
    std::uint32_t size_ = 0;
};

}  // namespace chainio::engine
