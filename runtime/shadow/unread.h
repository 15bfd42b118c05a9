// What each thread has opened and not read from yet, as far as was seen. Chains that find out only later how the thread
// reads, or that there is something to win again, are shown it then.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace chainio::shadow {

class Unread {
  public:
    static constexpr std::size_t kMost = 64;  // files of a thread, the latest ones

    struct File {
        std::uint64_t device = 0, inode = 0;
        std::uint32_t source = 0;  // watched class
        bool operator==(const File&) const = default;
    };

    explicit Unread(std::size_t threads) : files_(threads) {}

    void opened(std::uint32_t thread, const File& file) {
        auto& files = files_[thread];
        if (files.size() == kMost) files.erase(files.begin());
        files.push_back(file);
    }
    // It has been closed, or read from.
    void forget(std::uint32_t thread, const File& file) { std::erase(files_[thread], file); }
    // The thread reads in the class, and has been looked back at: the rest of it is read next, or has been.
    void reads(std::uint32_t thread, std::uint32_t source) {
        std::erase_if(files_[thread], [&](const File& file) { return file.source == source; });
    }
    // In the order in which they were opened.
    const std::vector<File>& of(std::uint32_t thread) const { return files_[thread]; }

  private:
    std::vector<std::vector<File>> files_;
};

}  // namespace chainio::shadow
