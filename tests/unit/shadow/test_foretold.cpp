// In which order it begins what openings ask for: what a thread has opened, then what it will come to, the nearest
// first.
#include <optional>
#include <string>
#include <vector>

#include "runtime/shadow/events.h"
#include "tests/unit/shadow/asking.h"

namespace chainio::shadow::test {
namespace {

// Three kinds of parts: a page of the file itself is fetched, or walked to, or one of the file beside it.
const char* const kForetoldSpec = R"(
app parts { files columns = "*.col"  files trees = "*.tree"  files marks = "*.mark"  files others = "*.oth" }
record Page { count: u32le }
chain reach(db: file trees, page: u32) -> u8 hops 1 { step there(p: Page at page * 4096 for 4096 in db) { return 1 } }
chain head on open(columns) as c { prefetch c.file at 4096 for 4096 }
chain walk on open(trees) as c { prefetch via reach(c.file, 1) }
chain beside on open(marks) as c { prefetch others.sibling(c, ".oth") at 4096 for 4096 }
)";
constexpr std::uint8_t kColumns = 0, kTrees = 1, kMarks = 2;  // classes

class Foretold : public Asking {
  protected:
    Foretold() : Asking(kForetoldSpec) {}
    void begin_events() {
        begin(1);
        events_.emplace(Events::Parts{*spec_, plan_, *region_, files_, *ranges_, *score_, *ahead_, direct_, marks_},
                        false);
    }
    // Folders beside each other, with such a file in each.
    void make(const std::string& name, unsigned folders) {
        for (unsigned i = 1; i <= folders; i++) {
            names_.push_back("parts/" + std::to_string(i) + "/" + name);
            drop_pages(folder_.write(names_.back(), std::string(4 * kPage, 'x')));
        }
    }
    void opened(std::uint32_t ring, std::uint8_t file_class, const std::string& name) {
        const std::string path = folder_.path() + "/" + name;
        struct stat info{};
        ASSERT_EQ(::stat(path.c_str(), &info), 0);
        Message message{{}, {reinterpret_cast<const std::uint8_t*>(path.data()), path.size()}, 0};
        message.event.kind = shim::EventKind::opened;
        message.event.source = file_class;
        message.event.device = info.st_dev;
        message.event.inode = info.st_ino;
        message.ring = ring;
        events_->on_message(message);
    }
    // What has begun since, one after the other. A walk first tries what is in memory, by which the kernel begins to
    // read: where that has come before the try ends, no fetch is known.
    std::vector<std::string> begun() {
        std::vector<std::string> order;
        EXPECT_TRUE(happens([&] {
            step();
            for (const std::string& name : names_) {
                struct stat info{};
                const std::string path = folder_.path() + "/" + name;
                if (::stat(path.c_str(), &info) != 0 || std::ranges::find(order, name) != order.end()) continue;
                const ShadowFile* found = files_.find(info.st_dev, info.st_ino);
                if (found != nullptr && (known(*found, 1) || pages_in_memory(path, 1, 1) == 1)) order.push_back(name);
            }
            return ahead_->idle();
        }));
        return order;
    }

    std::optional<Events> events_;
    std::vector<std::string> names_;
};

TEST_F(Foretold, WhatAThreadOpensComesBeforeWhatAnotherOneWillOpen) {
    begin_events();
    make("a.col", 6);
    names_.push_back("z.col");
    drop_pages(folder_.write("z.col", std::string(4 * kPage, 'x')));
    opened(0, kColumns, "parts/1/a.col");
    opened(0, kColumns, "parts/2/a.col");
    opened(1, kColumns, "z.col");
    EXPECT_EQ(begun(), (std::vector<std::string>{"parts/1/a.col", "parts/2/a.col", "z.col", "parts/3/a.col",
                                                 "parts/4/a.col", "parts/5/a.col", "parts/6/a.col"}));
}

TEST_F(Foretold, WhatIsOpenedAfterAllIsNoLongerFarAway) {
    begin_events();
    make("a.col", 6);
    opened(0, kColumns, "parts/1/a.col");
    opened(0, kColumns, "parts/2/a.col");
    opened(1, kColumns, "parts/6/a.col");
    EXPECT_EQ(begun(), (std::vector<std::string>{"parts/1/a.col", "parts/2/a.col", "parts/6/a.col", "parts/3/a.col",
                                                 "parts/4/a.col", "parts/5/a.col"}));
}

// What lay three folders ahead of a thread lies one ahead when it has gone on by two.
TEST_F(Foretold, WhatAThreadGoesTowardsComesNearer) {
    begin_events();
    make("a.col", 6);
    make("b.col", 6);
    for (const char* folder : {"parts/1", "parts/2"}) opened(0, kColumns, std::string(folder) + "/a.col");
    for (const char* folder : {"parts/1", "parts/2"}) opened(1, kColumns, std::string(folder) + "/b.col");
    for (const char* folder : {"parts/3", "parts/4"}) opened(0, kColumns, std::string(folder) + "/a.col");
    EXPECT_EQ(begun(), (std::vector<std::string>{"parts/1/a.col", "parts/2/a.col", "parts/1/b.col", "parts/2/b.col",
                                                 "parts/3/a.col", "parts/4/a.col", "parts/3/b.col", "parts/5/a.col",
                                                 "parts/4/b.col", "parts/6/a.col", "parts/5/b.col", "parts/6/b.col"}));
}

TEST_F(Foretold, WalksComeInTheSameOrder) {
    begin_events();
    make("a.tree", 5);
    make("b.col", 1);
    opened(0, kTrees, "parts/1/a.tree");
    opened(0, kTrees, "parts/2/a.tree");
    opened(1, kColumns, "parts/1/b.col");
    EXPECT_EQ(begun(), (std::vector<std::string>{"parts/1/a.tree", "parts/2/a.tree", "parts/1/b.col", "parts/3/a.tree",
                                                 "parts/4/a.tree", "parts/5/a.tree"}));
}

TEST_F(Foretold, AndWhatLiesBesideWhatIsOpened) {
    begin_events();
    make("a.mark", 5);
    make("a.oth", 5);
    make("b.col", 1);
    opened(0, kMarks, "parts/1/a.mark");
    opened(0, kMarks, "parts/2/a.mark");
    opened(1, kColumns, "parts/1/b.col");
    EXPECT_EQ(begun(), (std::vector<std::string>{"parts/1/a.oth", "parts/2/a.oth", "parts/1/b.col", "parts/3/a.oth",
                                                 "parts/4/a.oth", "parts/5/a.oth"}));
}

}  // namespace
}  // namespace chainio::shadow::test
