// What the server does with one event: it keeps score, runs the chains that are about it, and asks for what they say.
#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "runtime/shadow/ahead.h"
#include "runtime/shadow/inbox.h"
#include "runtime/shadow/outcomes.h"
#include "runtime/shadow/process_rings.h"
#include "runtime/shadow/refusals.h"
#include "runtime/shadow/runner.h"
#include "runtime/shadow/server.h"
#include "runtime/shadow/succession.h"
#include "runtime/shadow/unread.h"

namespace chainio::shadow {

class Events final : public MessageSink {
  public:
    struct Parts {
        const spec::Loaded& spec;
        const SpecPlan& plan;
        shim::Region& region;
        Files& files;
        Ranges& ranges;
        Score& score;
        Ahead& ahead;
        Direct& direct;
        Marks& marks;
    };
    Events(const Parts& parts, bool explain);

    void on_message(const Message& message) override;
    void on_process(std::uint32_t process) override { rings_.watch(process); }
    bool pauses() const override { return asked_ && parts_.ahead.in_flight() < kFewUnderWay; }
    bool may_serve(std::uint32_t process) override;
    // Whether processes still may is found out anew, and which hold rings. To be called now and then.
    void look_again();
    // Looks once more at the processes that posted; before the report.
    void look_at_processes() { rings_.look_at_all(); }
    // Sentences with counts: what did not go the way it was meant to.
    std::vector<std::string> notes() const;
    std::vector<Explained> explained() const;
    bool asked() const { return asked_; }  // since clear_asked(): a chain has asked for something
    void clear_asked() { asked_ = false; }
    // Events that come later are counted and shown to no chain: that takes long, and the launcher waits.
    void show_until(std::uint64_t ns) { shown_until_ = ns; }

  private:
    // With fewer the disk would be idle while events are looked at.
    static constexpr unsigned kFewUnderWay = 16;
    using ByMode = std::vector<std::vector<std::uint32_t>>;  // chains by source
    struct Opener {
        std::uint32_t ring, source;  // of the thread; the class that is watched
    };
    struct Asked {
        bool any = false;       // or may ask for something of another file
        bool by_reads = false;  // since the thread reads as it does
    };
    struct Shown {
        std::uint32_t length = 0;         // bytes of the read that are at hand, from its begin
        std::uint32_t walker = kNoRange;  // the chain whose walk has read them before
        bool is_marked = false;           // where the read begins, if a walk has led there
    };
    struct Place {
        std::uint64_t file = 0, offset = 0;
    };
    static std::string_view text_of(const Message& message) {
        return {reinterpret_cast<const char*>(message.payload.data()), message.payload.size()};
    }
    bool wants(std::uint32_t chain) const { return not_shown_ == 0 && parts_.score.wants_events(chain); }
    void on_opened(const Message& message);
    void on_closed(const Message& message);
    Asked run_opened(const Opener& opener, ShadowFile& file);
    bool show(std::uint32_t chain, std::uint32_t source, ShadowFile& file, Runner::Event& shown);
    bool opens(ShadowFile& file);
    void refuse(FileRefusal why, const ShadowFile& file);
    const std::vector<std::uint64_t>* header(std::uint32_t source, ShadowFile& file);
    void left_alone();
    void foretell(const Opener& opener, const ShadowFile& file, bool scans, std::uint64_t now);
    bool scans(const Opener& opener, ShadowFile& file);
    void look_back(const Opener& opener, const shim::Event& event);
    bool goes_on(ShadowFile& file, const shim::Event& event) const;
    void on_read(const Message& message);
    void run_read(const Message& message);
    void on_begun(const Message& message);
    std::uint32_t& last_read(const Opener& opener);
    Place& last_said(const Message& message, std::uint32_t chain);
    bool is_marked(const shim::Event& event) const;
    void run_over(const Message& message, const Shown& what, ShadowFile& file);
    void on_ready(const Message& message);
    void on_ran(const Message& message);
    void on_probe(const Message& message);
    void on_note(const Message& message);
    bool is_by_another_name(const Message& message) const;
    const char* why_passed(const Message& message) const;
    void explain(const Message& message, const char* why);
    ShadowFile* search(const shim::Event& event);
    ShadowFile* file_of(const shim::Event& event);
    bool bytes_for(ShadowFile& file, const shim::Event& event, std::uint32_t& length);
    bool read_block(const ShadowFile& file, const shim::Event& event, std::uint32_t& length);
    bool run(std::uint32_t chain, const Runner::Event& event, ShadowFile* file, bool is_whole = true);
    bool passes_over(std::uint32_t chain, const Shown& what);
    void follow(std::uint32_t chain, const cio_prefetch& prefetch, ShadowFile* file);
    void follow_named(std::uint32_t chain, const cio_prefetch& prefetch, ShadowFile* file);
    void find_wanted(const std::vector<std::uint32_t>& chains);
    void count(const std::string& what);
    void add_failing(std::vector<std::string>& notes) const;
    void add_unserved(std::vector<std::string>& notes) const;

    Parts parts_;
    bool explain_;
    Runner runner_;
    ByMode on_read_, on_open_, on_ready_, on_probe_;
    std::vector<bool> by_marks_;             // by chain: it goes by marks of where is read
    std::vector<bool> looks_into_;           // by chain: it goes by more of a file than a glance tells
    std::vector<std::uint32_t> silent_;      // by chain: pages of walks in a row at which it asked for nothing
    std::vector<std::uint32_t> passed_;      // by chain: openings while it was quiet
    std::vector<std::uint32_t> last_reads_;  // by ring and class: how much the thread's latest read asked for
    std::vector<Place> last_said_;           // by ring and chain; none where no chain goes by marks
    std::vector<std::set<std::uint32_t>> opened_for_;  // by class: those of which chains on openings fetch into it
    struct Missing {
        std::uint32_t times = 0;  // siblings in a row that were not there
        FileRefusal why = FileRefusal::cannot_open;
    };
    std::vector<Missing> missing_;       // by class of the module
    std::vector<std::uint32_t> to_run_;  // chains at the event at hand
    ProcessRings rings_;
    Succession succession_{shim::kRings};
    Unread unread_{shim::kRings};
    struct Grant {
        bool looked = false, served = true;
    };
    std::map<std::uint32_t, Grant> grants_;  // by process
    std::vector<std::uint64_t> unserved_;    // by class: reads from the disk of what was in served memory soon after
    Refusals refusals_;
    Outcomes outcomes_;
    std::map<std::string, std::uint64_t> counts_;
    std::map<std::pair<std::string, std::string>, Explained> explained_;  // by what and why
    std::uint64_t not_counted_ = 0, not_explained_ = 0;                   // since there was no room for more
    // Files of classes that are not immutable that were opened with O_DIRECT, and since then neither opened otherwise
    // nor read through the page cache: what is fetched into it nobody would read.
    std::unordered_set<std::uint64_t> past_cache_;
    std::uint64_t not_reached_ = 0;  // ranges of these
    std::uint64_t direct_ = 0, gone_ = 0, last_search_ns_ = 0;
    std::uint64_t shown_until_ = UINT64_MAX, not_shown_ = 0;
    bool asked_ = false;
    unsigned distance_ = 0;  // folders from where the thread is to the file at hand
};

}  // namespace chainio::shadow
