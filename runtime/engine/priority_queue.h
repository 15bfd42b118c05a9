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
        place_.resize(ranks.size());
        for (std::uint32_t i = 0; i < lists_.size(); i++) place_[lists_[i].rank] = i;
    }

    bool empty() const { return size_ == 0; }
    std::uint32_t size() const { return size_; }

    void push(std::uint32_t rank, std::uint32_t index) {
        List& list = lists_[place_[rank]];
        links_(index) = {kNoIndex, list.tail};
        if (list.tail == kNoIndex) {
            wake(list);
            list.head = index;
        } else {
            links_(list.tail).next = index;
        }
        list.tail = index;
        size_++;
    }
    // Puts an item back to where pop() took it from; its class has had nothing by it.
    void push_front(std::uint32_t rank, std::uint32_t index) {
        List& list = lists_[place_[rank]];
        list.pass -= list.stride;
        links_(index) = {list.head, kNoIndex};
        (list.head == kNoIndex ? list.tail : links_(list.head).prev) = index;
        list.head = index;
        size_++;
    }
    void remove(std::uint32_t rank, std::uint32_t index) {
        List& list = lists_[place_[rank]];
        const QueueLink link = links_(index);
        (link.prev == kNoIndex ? list.head : links_(link.prev).next) = link.next;
        (link.next == kNoIndex ? list.tail : links_(link.next).prev) = link.prev;
        size_--;
    }
    std::uint32_t pop() {
        if (size_ == 0) return kNoIndex;
        List* best = nullptr;
        for (List& list : lists_) {
            if (best != nullptr && list.priority != best->priority) break;
            if (list.head == kNoIndex) continue;
            if (best == nullptr || list.pass < best->pass) best = &list;
        }
        if (best == nullptr) return kNoIndex;
        const std::uint32_t index = best->head;
        best->head = links_(index).next;
        (best->head == kNoIndex ? best->tail : links_(best->head).prev) = kNoIndex;
        best->pass += best->stride;
        size_--;
        return index;
    }

    // Takes the item that came last among the least urgent ones.
    std::uint32_t pop_least() {
        for (auto list = lists_.rbegin(); list != lists_.rend(); ++list) {
            if (list->tail == kNoIndex) continue;
            const std::uint32_t index = list->tail;
            remove(list->rank, index);
            return index;
        }
        return kNoIndex;
    }

  private:
    static constexpr std::uint64_t kScale = 1u << 20;
    struct List {
        std::uint32_t rank = 0, priority = 0;
        std::uint64_t stride = kScale, pass = 0;
        std::uint32_t head = kNoIndex, tail = kNoIndex;
    };
    // A class that was idle has no claim on the time that it did not use.
    void wake(List& list) {
        if (size_ == 0) return;
        std::uint64_t least = UINT64_MAX;
        for (const List& other : lists_) {
            if (other.priority == list.priority && other.head != kNoIndex) least = std::min(least, other.pass);
        }
        if (least != UINT64_MAX) list.pass = std::max(list.pass, least);
    }

    Links links_;
    std::vector<List> lists_;
    std::vector<std::uint32_t> place_;
    std::uint32_t size_ = 0;
};

}  // namespace chainio::engine
