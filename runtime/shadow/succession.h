// Which files a thread will open next that goes through the folders beside each other in their order, as databases do
// whose table is a folder of parts with a file for each column: those of the same name in the next folders.
//
// That it goes so is known when it has gone one folder on. Before that, where those before it did: a query has threads
// of its own, which read as those of the query before.
//
// Who goes several folders on comes to each so many further ones: a table has as many parts a month, of which a key is
// in one. That is known when it has gone as many on twice, or as the latest one of whom it was known.
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
    static constexpr std::size_t kMostFolders = 4096;   // beside each other; where there are more, nothing is foretold
    static constexpr std::size_t kMostEntries = 16384;  // in the folder around them, files as well; likewise

    static constexpr std::size_t kAhead = 4;         // folders
    static constexpr unsigned kBelieved = 2;         // threads in a row that have gone on to the next folder
    static constexpr std::size_t kLongestStep = 64;  // folders; who goes further goes elsewhere

    explicit Succession(std::size_t threads) : threads_(threads) {}

    // The thread has opened the file at `path`. What it will open when it comes to the next folders, the nearest first;
    // empty when that is not known. `scans`: it reads as those do that go on; only then is that believed of one that
    // has just begun.
    std::vector<std::string> after(std::uint32_t thread, std::string_view path, bool scans, std::uint64_t now_ns);

  private:
    struct Thread {
        std::string folder;
        std::vector<std::string> next;  // where it will go from there, if that is known
        bool begins = false;            // nobody knows yet how it goes on from its folder
        std::size_t step = 0;           // folders from the one before; 0: it was elsewhere, or behind this one
    };
    struct Parent {
        std::vector<std::string> folders;  // in order
        std::uint64_t changed = 0, read_ns = 0;
        bool crowded = false;  // more than what is looked at
    };
    const std::vector<std::string>& folders_of(const std::string& parent, std::uint64_t now_ns);
    void goes_to(Thread& thread, std::string_view folder, std::uint64_t now_ns);
    bool goes_on(Thread& thread, std::size_t step);

    std::vector<Thread> threads_;
    std::map<std::string, Parent, std::less<>> parents_;
    unsigned went_on_ = 0;  // threads in a row, up to kBelieved
    std::size_t step_ = 0;  // of the latest thread of which it was known
};

}  // namespace chainio::shadow
