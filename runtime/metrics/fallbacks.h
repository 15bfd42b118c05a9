// What did not go the way it was meant to: every fallback has a name, a reason and a count, and is printed.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace chainio::metrics {

struct Fallback {
    std::string name;    // "unregistered-buffers"
    std::string reason;  // one sentence: what was missing, and how to get it when there is a way
    std::uint64_t count = 0;
};

class Fallbacks {
  public:
    // Reasons that name a file or a peer may be many: those of one name beyond so many are counted together.
    static constexpr std::size_t kMostReasons = 64;
    static constexpr std::string_view kOtherReasons = "the same for other reasons, which are too many to be listed";

    void note(std::string_view name, std::string_view reason, std::uint64_t times = 1);
    const std::vector<Fallback>& all() const { return all_; }
    std::uint64_t count(std::string_view name) const;
    // Of those that were listed; empty: none of that name was.
    std::string last_reason(std::string_view name) const;

  private:
    Fallback* find(std::string_view name, std::string_view reason);

    std::vector<Fallback> all_;
};

}  // namespace chainio::metrics
