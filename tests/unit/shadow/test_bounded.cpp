// What programs say is remembered up to a bound: there is no end of names.
#include <algorithm>

#include "tests/unit/shadow/fixture.h"

namespace chainio::shadow::test {
namespace {

using tests::Poster;

class Bounded : public testing::Test {
  protected:
    static ServerOptions explaining() {
        ServerOptions options;
        options.explain = true;
        return options;
    }
    void say(shim::EventKind kind, shim::Note note, unsigned times) {
        shim::Event event{};
        event.kind = kind;
        event.source = static_cast<std::uint8_t>(note);
        for (unsigned i = 0; i < times; i++)
            ASSERT_TRUE(happens([&] { return poster_.post_text(event, "/name" + std::to_string(i)); }));
        ASSERT_TRUE(happens([&] { return poster_.taken(); }));
    }

    Running running_{server_of(kPointers, explaining())};
    Poster poster_{running_.region(), 0};
};

TEST_F(Bounded, FilesThatAreExplained) {
    say(shim::EventKind::passed, {}, 5000);
    say(shim::EventKind::passed, {}, 1);
    running_.stop();
    const auto explained = running_.server().report().explained;
    EXPECT_EQ(explained.size(), 4096u);
    const auto first = std::ranges::find(explained, "/name0", &Explained::what);
    ASSERT_NE(first, explained.end());
    EXPECT_EQ(first->times, 2u) << "of those that are there all are counted";
    const auto notes = running_.server().report().notes;
    EXPECT_EQ(std::ranges::count(notes,
                                 "there were more than 4096 things that were opened, and `explained` leaves out "
                                 "the others (904 times)"),
              1);
}

TEST_F(Bounded, KindsOfNotes) {
    say(shim::EventKind::note, shim::Note::static_program, 300);
    say(shim::EventKind::note, shim::Note::static_program, 1);
    running_.stop();
    const auto notes = running_.server().report().notes;
    const auto told = std::ranges::count_if(
        notes, [](const std::string& note) { return note.starts_with("a static program was started"); });
    EXPECT_EQ(told, 256);
    EXPECT_EQ(std::ranges::count(notes, "a static program was started, which runs plain ('/name0') (2 times)"), 1);
    EXPECT_EQ(
        std::ranges::count(notes, "there were more than 256 kinds of notes, and the others are left out (44 times)"),
        1);
}

}  // namespace
}  // namespace chainio::shadow::test
