// Whatever programs say in their rings, the server goes on, and fetches for one that tells the truth.
#include <sys/stat.h>

#include <array>
#include <random>

#include "tests/support/soak.h"
#include "tests/unit/shadow/fixture.h"

namespace chainio::shadow::test {
namespace {

using shim::EventKind;
using tests::Poster;

constexpr std::size_t kFiles = 12;

// Of every kind of event and of prefetch; ROOT stands for the folder.
const char* const kEverything = R"(
app all {
  files data = "ROOT/*.ptr" { root "ROOT" }
  files fixed = "ROOT/*.fix" { immutable root "ROOT" }
  socket web = tcp port 80
}
record Page { count: u32le  page: u32le[count max 64] }
text Get { "GET " path: token(max 200) " HTTP/1." rest: rest(max 200) }
chain walk(f: file data, at: u64) -> u64 hops 4 {
  step one(b: block at at for 8) { if b.uint_le() == 0 { return 1 } goto one at b.uint_le() * 4096 }
}
chain further on read(data) as r { prefetch r.file at r.offset + r.length for 64KiB }
chain follow on read(data) as r { for p in r.record(Page).page max 64 { prefetch r.file at p * 4096 for 4096 } }
chain fixed_further on read(fixed) as r { prefetch r.file at r.offset + r.total for 1MiB }
chain beside on read(data) as r { prefetch fixed.sibling(r, ".fix") at r.offset for 8KiB }
chain walks on read(data) as r { prefetch via walk(r.file, r.offset) }
chain head on open(data) as c { if c.last_read >= 4096 { prefetch c.file at 0 for 64KiB } }
chain fixed_head on open(fixed) as c { prefetch c.file at 0 for 64KiB }
chain ahead on ready(web) as c { when c.text(Get) as g { prefetch data[g.path] } }
probe step = uprobe "program:step" (name: cstr(max 100), at: u64)
chain marked on read(data) as r {
  mark r.file at r.offset + r.length with r.total
  mark r.file at r.length via walk(r.file, r.mark)
  mark r.file via walk(r.file, r.offset)
  if r.mark < 8 { prefetch r.file at r.mark * 4096 for 4096 }
}
chain stepped on probe(step) as p { prefetch data[p.name] at p.at for 8KiB }
)";

// One in two belongs to the second class.
std::vector<std::string> files_in(const Folder& folder) {
    std::vector<std::string> files;
    for (std::size_t i = 0; i < kFiles; i++) {
        std::string bytes(std::size_t{64} * kPage, '\0');
        for (std::size_t at = 0; at < bytes.size(); at += kPage) {
            bytes[at] = 3;
            bytes[at + 4] = static_cast<char>(at / kPage);
        }
        files.push_back(folder.write(std::to_string(i / 2) + (i % 2 == 0 ? ".ptr" : ".fix"), bytes));
    }
    files.push_back(folder.path() + "/none.ptr");
    return files;
}

std::string spec_in(const Folder& folder) {
    std::string spec = kEverything;
    for (std::size_t at = 0; (at = spec.find("ROOT")) != std::string::npos;) spec.replace(at, 4, folder.path());
    return spec;
}

class Liar {
  public:
    Liar(shim::Region& region, unsigned ring, const std::vector<std::string>& files, std::uint64_t seed)
        : poster_(region, ring), files_(files), random_(seed) {}

    // Mostly an event that could be true, of which one part or another cannot.
    void say() {
        shim::Event event{};
        const std::size_t of = random_() % files_.size();
        event.kind = kind();
        event.source = static_cast<std::uint8_t>(event.kind == EventKind::ready ? 0 : of % 2);
        if (one_in(100)) event.source = static_cast<std::uint8_t>(random_() % (one_in(4) ? 256 : 3));
        struct stat info{};
        if (!one_in(10) && stat(files_[of].c_str(), &info) == 0) {
            event.device = info.st_dev;
            event.inode = info.st_ino;
        }
        // Of an opening it is the flags, and files that are read past the page cache are left alone.
        event.offset = event.kind == EventKind::opened && !one_in(30) ? 0 : number();
        event.length = static_cast<std::uint32_t>(one_in(4) ? number() : random_() % 32 * kPage);
        event.took_ns = static_cast<std::uint32_t>(one_in(2) ? random_() % 1'000'000 : number());
        post(event, files_[of]);
    }
    // Bytes that are no events.
    void scribble() {
        poster_.ring().data[random_() % shim::kRingBytes] = static_cast<std::uint8_t>(random_());
        poster_.ring().tail += static_cast<std::uint32_t>(random_() % 500);
    }
    bool taken() const { return poster_.taken(); }

  private:
    bool one_in(unsigned n) { return random_() % n == 0; }
    EventKind kind() {
        constexpr unsigned kNone = 8;  // a number that is none's
        const auto number_of = static_cast<unsigned>(1 + random_() % static_cast<unsigned>(EventKind::direct_ended));
        return number_of == kNone && !one_in(100) ? EventKind::read : static_cast<EventKind>(number_of);
    }
    std::uint64_t number() {
        static constexpr std::array<std::uint64_t, 7> kEdges = {0,         kPage,      INT32_MAX,        UINT32_MAX,
                                                                INT64_MAX, UINT64_MAX, INT64_MAX - kPage};
        if (one_in(30)) return kEdges[random_() % kEdges.size()] - random_() % 3;
        return random_() % (one_in(4) ? 300 : 64) * (one_in(4) ? 511 : kPage);
    }
    void post(const shim::Event& event, const std::string& file) {
        switch (event.kind) {
            case EventKind::opened:
            case EventKind::ready:
            case EventKind::passed:
            case EventKind::note:
                poster_.post_text(event, one_in(10) ? garbage(random_() % 300) : text(event.kind, file));
                return;
            case EventKind::probe: poster_.post_text(event, garbage(8 * (random_() % 8))); return;
            case EventKind::ran: poster_.post_text(event, garbage(sizeof(shim::Ran))); return;
            default: break;
        }
        const auto asked = static_cast<std::uint32_t>(number());
        poster_.post(event, {reinterpret_cast<const std::uint8_t*>(&asked), one_in(3) ? sizeof asked : 0});
    }
    std::string garbage(std::size_t length) {
        std::string bytes(length, '\0');
        for (char& byte : bytes) byte = static_cast<char>(one_in(2) ? random_() : random_() % 4);
        return bytes;
    }
    std::string text(EventKind kind, const std::string& file) {
        if (kind != EventKind::ready) return file;
        return "GET " + std::string(one_in(4) ? "/.." : "") + file.substr(file.rfind('/')) + " HTTP/1.1\r\n\r\n";
    }

    Poster poster_;
    const std::vector<std::string>& files_;
    std::mt19937_64 random_;
};

TEST(Hostile, WhateverProgramsSayTheServerGoesOn) {
    constexpr unsigned kLiars = 4, kDrop = 1024, kScribble = 1000, kWait = 64;
    const Folder folder;
    const std::vector<std::string> files = files_in(folder);
    const std::uint64_t seed = tests::soak_seed();
    SCOPED_TRACE("CHAINIO_SEED=" + std::to_string(seed));
    Running running(server_of(spec_in(folder), {.served_bytes = 1 << 20, .explain = true, .gate = false}));
    std::vector<Liar> liars;
    for (unsigned ring = 1; ring <= kLiars; ring++) liars.emplace_back(running.region(), ring, files, seed + ring);
    for (std::uint64_t n = 1; n <= tests::soak_count(5000, 200'000); n++) {
        Liar& liar = liars[n % kLiars];
        liar.say();
        if (n % kScribble == 0) liar.scribble();
        if (n % kDrop == 0) drop_pages(files[n / kDrop % kFiles]);
        if (n % kWait == 0) ASSERT_TRUE(happens([&] { return liar.taken(); }));
    }
    EXPECT_GT(running.stats().bad_events, 0u);
    const std::uint64_t before = running.chain().fetches;
    const std::string fresh = folder.write("fresh.ptr", std::string(std::size_t{64} * kPage, '\1'));
    drop_pages(fresh);
    Poster honest(running.region(), kLiars + 1);
    ASSERT_TRUE(honest.opened(0, fresh));
    ASSERT_TRUE(honest.read(0, fresh, 0, kPage));
    EXPECT_TRUE(happens([&] { return running.chain().fetches > before; }));
    running.stop();
    for (unsigned i = 0; i < running.stats().chain_count; i++)
        EXPECT_GT(running.chain(i).events, 0u) << running.chain(i).name;
    EXPECT_FALSE(running.server().report().explained.empty());
}

}  // namespace
}  // namespace chainio::shadow::test
