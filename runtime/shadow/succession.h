// Which file a thread will open next that goes through the folders beside each other in their order, as databases do
// whose table is a folder of parts with a file for each column: the one of the same name, one folder on.
//
// Names are in order as people count: runs of digits by their value, so that part_69 comes before part_1442.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace chainio::shadow {

bool comes_before(std::string_view name, std::string_view other);

class Succession {
  public:
    static constexpr std::size_t kMostFolders = 4096;  // beside each other; where there are more, nothing is foretold

    explicit Succession(std::size_t threads) : threads_(threads) {}

    // The thread has opened the file at `path`. What it will open when it comes to the next folder, if it has come to
    // this one from the one before; else empty.
    std::string after(std::uint32_t thread, std::string_view path, std::uint64_t now_ns);

  private:
    struct Thread {
        std::string folder, next;  // next: where it will go from there, if that is known
    };
    struct Parent {
        std::vector<std::string> folders;  // in order
        std::uint64_t changed = 0, read_ns = 0;
    };
    const std::vector<std::string>& folders_of(const std::string& parent, std::uint64_t now_ns);

    std::vector<Thread> threads_;
    std::map<std::string, Parent, std::less<>> parents_;
};

}  // namespace chainio::shadow
