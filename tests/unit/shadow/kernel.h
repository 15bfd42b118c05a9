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

// What reads of the ring come to.
enum class RingReads {
    as_they_are,
    not_yet,  // they are not even begun
    again,    // those that end do with EAGAIN, as on a disk that cannot begin one and let go of who asks
};
extern std::atomic<RingReads> ring_reads;

// For the rest of a test.
class ReadsNowAre {
  public:
    explicit ReadsNowAre(ReadsNow how) { reads_now = how; }
    ~ReadsNowAre() { reads_now = ReadsNow::as_they_are; }
    ReadsNowAre(const ReadsNowAre&) = delete;
    ReadsNowAre& operator=(const ReadsNowAre&) = delete;
};

class RingReadsAre {
  public:
    explicit RingReadsAre(RingReads how) { ring_reads = how; }
    ~RingReadsAre() { ring_reads = RingReads::as_they_are; }
    RingReadsAre(const RingReadsAre&) = delete;
    RingReadsAre& operator=(const RingReadsAre&) = delete;
};

}  // namespace chainio::shadow::test
