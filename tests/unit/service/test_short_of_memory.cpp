// Requests whose chains find no frame, as others' replies lie in all of them: they wait, and what they reply is the
// same.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "runtime/engine/owners.h"
#include "tests/unit/service/compiled.h"
#include "tests/unit/service/rig.h"

namespace chainio::service {
namespace {

using test::answer_of;
using test::Narrow;
using test::Rig;

constexpr unsigned kBlock = 16000, kBlocks = 40;
constexpr std::size_t kMemory = 256 * 1024;         // sixteen frames that take a block
constexpr std::uint64_t kPatience = 5'000'000'000;  // ns, for what has to end some time

std::string spec_of_blocks(const std::string& reply) {
    return R"(
files rows = "*.rows"
chain part(file: file rows, key: bytes(max 8)) -> bytes(max 16KiB) hops 1 {
  step s(b: block at key.decimal() * 16000 for 16000 in file) {
    if b[0] == 45 { fail not_found }
    return b
  }
}
service s on tcp 9000 via uring {
  text Line { "get " keys: token(max 8)[1..64 by " "] "\n" }
  request { line: Line }
  on request {
    let line = request.line
    for k in line.keys {
      let v = part(rows["a"], k) else { reply "-"  continue }
      )" + reply +
           R"(
    }
    reply "."
  }
  on malformed { reply "bad" }
  on failure { reply "sorry" }
}
)";
}

// Keys that are looked up ahead, alone and with a result that is asked for while another one is needed still.
constexpr const char* kReplies[] = {
    R"(reply "<" k ":" v ">")",
    R"(let w = part(rows["a"], v[0..2]) else { reply "+"  continue }
      reply "<" k ":" v[0..9000] w v[9000..16000] ">")",
};

// Blocks begin with the number of another one, in two digits, or are absent.
engine::test::FakeDisk disk_of_blocks() {
    engine::test::FakeDisk disk;
    disk.files.resize(1);
    for (unsigned i = 0; i < kBlocks; i++) {
        const unsigned other = i * 7 % kBlocks;
        std::string block = i % 10 == 3 ? "-" : std::string(other < 10 ? "0" : "") + std::to_string(other);
        while (block.size() < kBlock) block += static_cast<char>('a' + (block.size() * (i + 1)) % 26);
        disk.files[0].insert(disk.files[0].end(), block.begin(), block.end());
    }
    return disk;
}

std::string request_of(std::mt19937& random) {
    std::string text = "get";
    for (unsigned i = 0, count = 1 + random() % 6; i < count; i++) text += " " + std::to_string(random() % kBlocks);
    return text + "\n";
}

// Places, parked ones and those that are to look ahead want several times the memory that there is.
TEST(ShortOfMemory, RepliesAreAsWithEnough) {
    std::mt19937 random(20261123);
    unsigned shorts = 0;
    std::vector<std::shared_ptr<const spec::Loaded>> specs;
    for (const char* reply : kReplies) {
        specs.push_back(compiled(spec_of_blocks(reply).c_str()));
        specs.push_back(spec::Loaded::from_artifact(lowered(spec_of_blocks(reply).c_str())));
    }
    for (const auto& spec : specs) {
        Rig reference(spec, disk_of_blocks(), {.in_flight = 1, .memory = 16 << 20});
        for (std::uint64_t round = 0; round < 40 && !HasFailure(); round++) {
            Rig rig(spec, disk_of_blocks(),
                    {.in_flight = 60,
                     .places = {.run = 24, .parked = 4},
                     .memory = kMemory,
                     .seed = round,
                     .patience_ns = kPatience});
            std::vector<std::string> texts(30);
            for (std::string& text : texts) text = request_of(random);
            std::vector<Narrow> out(texts.size());
            std::vector<std::size_t> text_of(29);
            std::vector<std::uint32_t> ended;
            std::size_t next = 0, answered = 0;
            while (answered < texts.size() && !HasFailure()) {
                while (next < texts.size() && rig.requests->any_free()) {
                    const std::uint32_t slot = rig.start(texts[next], out[next]);
                    text_of[slot] = next++;
                    rig.go_on(slot, ended);
                }
                if (ended.empty()) rig.turn(ended);
                std::vector<std::uint32_t> full;
                full.swap(rig.full);
                for (const std::uint32_t slot : full) {
                    if (random() % 8 == 0) {
                        out[text_of[slot]].room += random() % 50000;
                        rig.go_on(slot, ended);
                    } else {
                        if (random() % 4 == 0) rig.requests->park(slot);
                        rig.full.push_back(slot);
                    }
                }
                for (const std::uint32_t slot : ended) {
                    rig.requests->release(slot);
                    EXPECT_TRUE(out[text_of[slot]].text == answer_of(reference, texts[text_of[slot]]))
                        << texts[text_of[slot]];
                    answered++;
                }
                ended.clear();
            }
            shorts += rig.shorts;
            while (rig.requests->running() != 0 && !HasFailure()) rig.turn(ended);
            // Reads of chains that were given up arrive later.
            for (int i = 0; i < 100 && rig.engine().memory().accounting().in_use != 0; i++)
                ASSERT_TRUE(rig.engine().reap({}, 0).has_value());
            EXPECT_EQ(rig.engine().memory().accounting().in_use, 0u);
            EXPECT_TRUE(rig.engine().leaks().empty());
        }
    }
    EXPECT_GT(shorts, 100u);
}

// Frames that nobody gives back: the request fails once its time is over, and not before.
TEST(ShortOfMemory, HasAnEnd) {
    for (const std::uint64_t patience_ns : {std::uint64_t{0}, std::uint64_t{20'000'000}}) {
        Rig rig(compiled(spec_of_blocks(kReplies[0]).c_str()), disk_of_blocks(),
                {.memory = kMemory, .patience_ns = patience_ns});
        std::vector<umem::Frame> taken;
        for (umem::Frame frame; (frame = rig.engine().take_frame(kBlock)) != umem::kNoFrame;) taken.push_back(frame);
        EXPECT_EQ(taken.size(), 16u);
        EXPECT_EQ(answer_of(rig, "get 1 2\n"), "sorry");
        EXPECT_EQ(rig.shorts != 0, patience_ns != 0);
        for (const umem::Frame frame : taken) rig.engine().memory().release(frame, engine::kHandedOut);
        EXPECT_EQ(answer_of(rig, "get 3\n"), "-.");
        EXPECT_TRUE(rig.engine().leaks().empty());
    }
}

}  // namespace
}  // namespace chainio::service
