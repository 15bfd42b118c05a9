// The kernel as the tests of this folder want it: the server's reads that are not to wait go by way of here.
#pragma once
#include <atomic>

namespace chainio::shadow::test {

enum class ReadsNow {
    as_they_are,
    never,    // as FUSE: there are no reads that need not wait
    waiting,  // as on a device that is done before the kernel looks: what is not in memory is read, and then found
    slowly,   // as where something else runs meanwhile
};
extern std::atomic<ReadsNow> reads_now;
extern std::atomic<unsigned> reads_begun;  // by readahead()

// For the rest of a test.
class ReadsNowAre {
  public:
    explicit ReadsNowAre(ReadsNow how) { reads_now = how; }
    ~ReadsNowAre() { reads_now = ReadsNow::as_they_are; }
    ReadsNowAre(const ReadsNowAre&) = delete;
    ReadsNowAre& operator=(const ReadsNowAre&) = delete;
};

}  // namespace chainio::shadow::test
