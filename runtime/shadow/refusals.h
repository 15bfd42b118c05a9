// The files that were left alone, and why: each counts once, however often it was asked for. Of each reason one path is
// kept, as what a chain has made wrong is found out by nothing else.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "runtime/shadow/files.h"

namespace chainio::shadow {

const char* refusal_text(FileRefusal why);

class Refusals {
  public:
    static constexpr std::size_t kMost = 4096;  // of each reason; programs can name as many as they like
    static constexpr std::size_t kLongestExample = 256;

    void add(FileRefusal why, std::uint64_t file) {
        auto& files = files_[static_cast<std::size_t>(why)];
        if (files.size() < kMost) files.insert(file);
    }
    // Of one that is only known by name, in a class or beside another file.
    void add(FileRefusal why, std::uint64_t among, std::string_view name) {
        add(why, file_key(among, std::hash<std::string_view>{}(name)));
    }
    // Whether no path of one that was left alone like this is known yet, and what it is.
    bool wants_example(FileRefusal why) const { return examples_[static_cast<std::size_t>(why)].empty(); }
    void set_example(FileRefusal why, std::string_view path);
    // Sentences for the report.
    std::vector<std::string> notes() const;

  private:
    std::array<std::unordered_set<std::uint64_t>, kFileRefusals> files_;
    std::array<std::string, kFileRefusals> examples_;  // escaped
};

}  // namespace chainio::shadow
