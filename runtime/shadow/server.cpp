#include "runtime/shadow/server.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <utility>

#include "compiler/diag/utf8.h"
#include "runtime/probe/waker.h"
#include "runtime/ring/spinning.h"
#include "runtime/shadow/clock.h"
#include "runtime/shadow/direct.h"
#include "runtime/shadow/events.h"
#include "runtime/shadow/letting_go.h"
#include "runtime/shadow/region.h"

namespace chainio::shadow {
namespace {

constexpr std::uint32_t kDefaultPriority = 4;  // of chains without a class
constexpr std::size_t kLeastMemory = 256 * 1024;
constexpr std::uint64_t kLeastServed = std::uint64_t{1} << 20, kMostServed = std::uint64_t{64} << 30;
constexpr std::uint64_t kHousekeepingNs = 2'000'000;
constexpr std::uint64_t kReclaimNs = 500'000'000;
constexpr std::uint64_t kChangesNs = 100'000'000;  // between looks at whether files have changed
constexpr std::uint64_t kNewRingsNs = 200'000;     // between looks for threads that have begun to post
// At most: quick reads leave their events to be found. Longer and longer while there are none.
constexpr std::uint64_t kSleepNs = 10'000'000, kIdleNs = 160'000'000;
constexpr std::uint64_t kLastWaitNs = 1'000'000'000;  // for what is in flight at the end
constexpr unsigned kFewWalks = 16;                    // that go on to their end behind that of the program
constexpr unsigned kEventsAtOnce = 256;               // of one ring
constexpr unsigned kLastProbes = 65'536;              // events of probes that are looked at after the end
constexpr std::uint32_t kKnownFiles = 4096, kOpenFiles = 256;

std::vector<engine::ClassRank> ranks_of(const ir::Module& module) {
    std::vector<engine::ClassRank> ranks;
    for (const auto& entry : module.classes) ranks.push_back({entry.priority, entry.weight});
    ranks.push_back({kDefaultPriority, 1});
    return ranks;
}

class ServerImpl final : public Server {
  public:
    ServerImpl(std::shared_ptr<const spec::Loaded> spec, const ServerOptions& options, SpecPlan plan, RegionFile file)
        : options_(options),
          spec_(std::move(spec)),
          plan_(std::move(plan)),
          file_(std::move(file)),
          direct_(file_.get(), file_.path(), options.served_bytes),
          files_(*spec_, kKnownFiles, kOpenFiles),
          score_(spec_->module(), plan_, file_.get(), options.gate),
          ranges_(limits_of(options), static_cast<std::uint32_t>(plan_.chains.size()), score_),
          inbox_(file_.get(), static_cast<std::uint32_t>(plan_.classes.size()),
                 static_cast<std::uint32_t>(plan_.sockets.size())) {}

    std::expected<void, std::string> start() {
        auto walks = Walks::create({spec_, files_, ranges_, score_, fallbacks_, marks_}, options_.in_flight,
                                   options_.memory_bytes);
        if (!walks) return std::unexpected(walks.error());
        walks_ = std::move(*walks);
        files_.on_closing(
            [](void* server, ShadowFile& closing) {
                static_cast<ServerImpl*>(server)->walks_->file_closes(closing);
                static_cast<ServerImpl*>(server)->direct_.closes(closing);
            },
            this);
        ahead_.emplace(Ahead::Parts{plan_, ranges_, score_, *walks_, direct_}, ranks_of(spec_->module()),
                       options_.in_flight);
        file_.get().own_at_once = own_at_once();
        files_.tell_of_openings(file_.get().holds_files);
        files_.tell_of_disks(file_.get().disks);
        events_.emplace(Events::Parts{*spec_, plan_, file_.get(), files_, ranges_, score_, *ahead_, direct_, marks_},
                        options_.explain);
        return {};
    }
    // The files close after the walks are gone.
    ~ServerImpl() override {
        files_.on_closing([](void* direct, ShadowFile& closing) { static_cast<Direct*>(direct)->closes(closing); },
                          &direct_);
    }
    ServerImpl(const ServerImpl&) = delete;
    ServerImpl& operator=(const ServerImpl&) = delete;

    const std::string& region_path() const override { return file_.path(); }
    const shim::Region& region() const override { return file_.get(); }
    std::atomic<std::uint32_t>& sleeping() override { return file_.get().asleep; }
    void listen_to(probe::Poller& probes) override { probes_ = &probes; }
    void lacks(std::uint16_t probe) override;
    std::expected<void, std::string> run(const std::function<bool()>& stop) override;
    Report report() const override;

  private:
    static RangeLimits limits_of(const ServerOptions& options) {
        RangeLimits limits;
        limits.bytes = options.ahead_bytes;
        return limits;
    }
    bool turn(std::uint64_t now);
    bool advance();
    unsigned take_probes(unsigned most);
    void switch_probes();
    void keep_house(std::uint64_t now);
    void let_go_of_deleted();
    bool let_go_of_all();
    unsigned own_at_once() const;
    bool looks_on(std::uint64_t now);
    void sleep(const std::function<bool()>& stop);
    std::expected<void, std::string> finish();

    ServerOptions options_;
    std::shared_ptr<const spec::Loaded> spec_;
    SpecPlan plan_;
    RegionFile file_;
    metrics::Fallbacks fallbacks_;
    Direct direct_;
    Files files_;
    Score score_;
    Ranges ranges_;
    Inbox inbox_;
    Marks marks_;
    std::unique_ptr<Walks> walks_;
    std::optional<Ahead> ahead_;
    std::optional<Events> events_;
    probe::Poller* probes_ = nullptr;
    std::string failure_;    // of the ring; the server then only watches
    unsigned given_up_ = 0;  // fetches and walks that had not ended when the run did
    std::uint64_t sleep_ns_ = kSleepNs, house_ns_ = 0, reclaim_ns_ = 0, new_rings_ns_ = 0, changes_ns_ = 0;
    ring::Spinning spinning_;
    std::uint32_t removals_ = 0;  // Region::removals when it was last looked for what has been deleted
    LettingGo letting_go_;
    bool may_spin_ = false, spins_ = false;  // since something moved: it may look on, and does
    std::uint64_t last_moved_ = 0;
};

// One look at everything; whether anything happened that makes another look at once worth while.
bool ServerImpl::turn(std::uint64_t now) {
    let_go_of_deleted();  // before all that waits: what is deleted can be opened by no later event
    const bool look = now - new_rings_ns_ >= kNewRingsNs;
    if (look) new_rings_ns_ = now;
    if (now - changes_ns_ >= kChangesNs) {
        changes_ns_ = now;
        files_.look_again();
    }
    const unsigned events = inbox_.drain(*events_, kEventsAtOnce, look) + take_probes(kEventsAtOnce);
    const bool asked = events_->asked();
    events_->clear_asked();
    if (!failure_.empty()) ahead_->drop_waiting();
    const bool moved = advance() || asked;
    if (events != 0) sleep_ns_ = kSleepNs;
    if (events != 0 && spins_) spinning_.found();
    if (events != 0) file_.get().stats.server_ns.fetch_add(now_ns() - now, std::memory_order_relaxed);
    if (now - house_ns_ >= kHousekeepingNs) keep_house(now);
    return moved || events >= kEventsAtOnce || events_->asked();
}

// A ring that has failed is given nothing more, but what it was given before may still come.
bool ServerImpl::advance() {
    const auto advanced = ahead_->advance();
    if (failure_.empty()) failure_ = advanced ? walks_->disk().failure() : advanced.error();
    if (!failure_.empty()) ahead_->drop_waiting();
    return advanced && *advanced;
}

// Programs that have deleted a file wait for its space. Who asks before the next file is opened is told to go on.
void ServerImpl::let_go_of_deleted() {
    shim::Region& region = file_.get();
    const LettingGo::Wanted wanted =
        letting_go_.look([&] { return region.unmounts.load(); }, [&] { return region.removals.load(); });
    removals_ = wanted.removals;
    if (removals_ == region.let_go.load(std::memory_order_relaxed)) return;
    if (!(wanted.all ? let_go_of_all() : files_.let_go_of_deleted())) return;
    letting_go_.done(wanted);
    region.let_go.store(removals_);
    syscall(SYS_futex, &region.let_go, FUTEX_WAKE, INT_MAX);
}

// What has been read of a file system that is unmounted now is looked at before, so that nothing of it is opened
// behind.
bool ServerImpl::let_go_of_all() {
    inbox_.drain_rest(*events_);
    ahead_->drop_waiting();
    return files_.let_go_of_all();
}

unsigned ServerImpl::take_probes(unsigned most) {
    if (probes_ == nullptr) return 0;
    return probes_->poll(most, [&](const probe::Event& event) {
        Message message{{}, event.arguments, 0};
        message.event.kind = shim::EventKind::probe;
        message.event.source = static_cast<std::uint8_t>(event.probe);
        message.event.process = event.process;
        message.event.length = static_cast<std::uint32_t>(event.arguments.size());
        events_->on_message(message);
    });
}

void ServerImpl::lacks(std::uint16_t probe) {
    for (std::size_t i = 0; i < plan_.chains.size(); i++)
        if (plan_.chains[i].mode == ir::ChainMode::on_probe && plan_.chains[i].source == probe)
            file_.get().stats.chains[i].gate = shim::GateState::off;
}

// A probe whose chains are all switched off costs the program the trap only.
void ServerImpl::switch_probes() {
    if (probes_ == nullptr) return;
    std::uint32_t wanted = 0, known = 0;
    for (std::size_t i = 0; i < plan_.chains.size(); i++) {
        if (plan_.chains[i].mode != ir::ChainMode::on_probe) continue;
        const std::uint32_t bit = std::uint32_t{1} << plan_.chains[i].source;
        known |= bit;
        if (file_.get().stats.chains[i].gate != shim::GateState::off) wanted |= bit;
    }
    for (std::uint16_t probe = 0; probe < shim::kMaxProbes; probe++)
        if ((known >> probe & 1) != 0) probes_->want(probe, (wanted >> probe & 1) != 0);
}

// Fetches that a program's thread may begin from one wait to the next; the rest is for what the server begins.
unsigned ServerImpl::own_at_once() const {
    constexpr unsigned kFewest = 4;
    return options_.in_flight < kFewest ? 0 : options_.in_flight / 2;
}

void ServerImpl::keep_house(std::uint64_t now) {
    house_ns_ = now;
    score_.let_programs_begin(own_at_once() != 0 &&
                              ranges_.bytes() + std::uint64_t{own_at_once()} * kPiece <= options_.ahead_bytes);
    ranges_.age(score_.turns(), now);
    // What is in memory may be there since the program has waited for it, which then stands in its ring.
    if (score_.would_be_of_no_use(now)) inbox_.drain_rest(*events_);
    score_.update_gates(now);
    switch_probes();
    if (now - reclaim_ns_ < kReclaimNs) return;
    reclaim_ns_ = now;
    events_->look_again();
    inbox_.reclaim();
    files_.let_go();
    if (files_.open_count() == 0) file_.get().holds_files = 0;
}

void ServerImpl::sleep(const std::function<bool()>& stop) {
    shim::Region& region = file_.get();
    region.rests.store(sleep_ns_ > kSleepNs ? 1 : 0, std::memory_order_relaxed);
    region.asleep.store(1, std::memory_order_seq_cst);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const bool probed = probes_ != nullptr && !probes_->sleep();
    // What is read of a file that was deleted keeps its space until it has ended.
    const bool hurries =
        (failure_.empty() && ahead_->hurries()) || removals_ != region.let_go.load(std::memory_order_relaxed);
    // Looking at all rings costs some microseconds, which is much where the end of every read ends the sleep.
    if (!probed && !inbox_.pending(!hurries) && region.removals.load() == removals_ && !stop()) {
        if (!hurries) ahead_->has_slept();
        walks_->disk().wait(region.asleep, sleep_ns_, hurries);
        if (ahead_->in_flight() == 0 || !failure_.empty()) sleep_ns_ = std::min(sleep_ns_ * 2, kIdleNs);
        region.stats.wakes.fetch_add(1, std::memory_order_relaxed);
    } else {
        new_rings_ns_ = 0;
    }
    if (region.asleep.exchange(0, std::memory_order_seq_cst) == 0) new_rings_ns_ = 0;
}

// Without reads under way it looks on for a moment, as a program that has just been helped will come back soon.
bool ServerImpl::looks_on(std::uint64_t now) {
    if (ahead_->under_way() != 0 || now - last_moved_ >= options_.spin_ns) {
        if (std::exchange(spins_, false)) spinning_.ended();
        return false;
    }
    if (std::exchange(may_spin_, false)) spins_ = spinning_.begins();
    return spins_;
}

std::expected<void, std::string> ServerImpl::run(const std::function<bool()>& stop) {
    const auto waker = probes_ != nullptr ? probe::Waker::start(probes_->fd(), file_.get().asleep) : nullptr;
    while (!stop()) {
        const std::uint64_t now = now_ns();
        if (turn(now)) {
            last_moved_ = now;
            may_spin_ = true;
        } else if (looks_on(now)) {
            file_.get().stats.spins_ns.fetch_add(now_ns() - now, std::memory_order_relaxed);
        } else {
            sleep(stop);
        }
    }
    return finish();
}

// Who outlives the program goes on plain: with what such processes go on posting, and reach probes with, this would not
// end.
std::expected<void, std::string> ServerImpl::finish() {
    file_.get().server = 0;
    events_->show_until(now_ns() + options_.last_look_ns);
    inbox_.drain_rest(*events_);
    take_probes(kLastProbes);
    ahead_->drop_waiting();
    // Nobody reads any more what many walks would still bring, and the caller waits for this process.
    if (walks_->in_flight() > kFewWalks) walks_->give_up();
    const std::uint64_t since = now_ns();
    while (failure_.empty() && ahead_->in_flight() > 0 && now_ns() - since < kLastWaitNs) {
        if (advance()) continue;
        file_.get().asleep.store(1);
        walks_->disk().wait(file_.get().asleep, kSleepNs, true);
    }
    file_.get().asleep.store(0);
    given_up_ = ahead_->in_flight();
    events_->look_at_processes();
    ranges_.end();
    return {};
}

Report ServerImpl::report() const {
    Report report;
    report.refused = plan_.refused;
    report.explained = events_->explained();
    report.notes = events_->notes();
    for (std::string& note : direct_.notes()) report.notes.push_back(std::move(note));
    for (const auto& fallback : walks_->engine().fallbacks().all())
        report.notes.push_back(fallback.reason + " (" + std::to_string(fallback.count) + " times)");
    for (const auto& fallback : fallbacks_.all())
        report.notes.push_back(fallback.reason + " (" + std::to_string(fallback.count) + " times)");
    for (std::string& note : score_.gate_notes()) report.notes.push_back(std::move(note));
    for (std::string& note : score_.own_notes()) report.notes.push_back(std::move(note));
    if (!failure_.empty()) report.notes.push_back("nothing was fetched after an error of the ring: " + failure_);
    if (given_up_ != 0)
        report.notes.push_back("fetches that had not ended a second after the program were given up (" +
                               std::to_string(given_up_) + " times)");
    const auto counted = [&](std::uint64_t count, const std::string& of_one, const std::string& of_many) {
        if (count != 0) report.notes.push_back(std::to_string(count) + (count == 1 ? of_one : of_many));
    };
    for (const Failures::Kind* kind : {&score_.failures().failed(), &score_.failures().changed()}) {
        if (kind->ranges == 0) continue;
        const std::string path = files_.path_of(kind->file);
        report.notes.push_back(Failures::note(*kind, path.empty() ? "a file forgotten since" : diag::escaped(path)));
    }
    const shim::Stats& stats = file_.get().stats;
    counted(stats.lost_events, " event found no room in its ring", " events found no room in their rings");
    counted(stats.no_ring, " event was not posted: its thread found no free ring, or no memory for one",
            " events were not posted: their threads found no free ring, or no memory for one");
    counted(stats.bad_events, " event could not be understood", " events could not be understood");
    return report;
}

}  // namespace

std::string wrong_options(const ServerOptions& options) {
    if (options.in_flight < 1 || options.in_flight > kMostInFlight)
        return "fetches and walks in flight (--in-flight) must be 1 to " + std::to_string(kMostInFlight);
    if (options.ahead_bytes < kPiece || options.ahead_bytes > std::uint64_t{16} << 30)
        return "what may be fetched ahead (--ahead) must be 256 KiB to 16 GiB";
    if (options.memory_bytes < kLeastMemory || options.memory_bytes > std::size_t{16} << 30)
        return "the memory for blocks (--memory) must be 256 KiB to 16 GiB";
    if (options.served_bytes != 0 && (options.served_bytes < kLeastServed || options.served_bytes > kMostServed))
        return "the memory that reads are served from (--served) must be 1 MiB to 64 GiB, or 0 for none";
    return {};
}

std::expected<std::unique_ptr<Server>, std::string> Server::create(std::shared_ptr<const spec::Loaded> spec,
                                                                   const ServerOptions& options) {
    auto file = RegionFile::create();
    if (!file) return std::unexpected(file.error());
    return create(std::move(spec), options, std::move(*file));
}

std::expected<std::unique_ptr<Server>, std::string> Server::create(std::shared_ptr<const spec::Loaded> spec,
                                                                   const ServerOptions& options, RegionFile region) {
    if (const std::string wrong = wrong_options(options); !wrong.empty()) return std::unexpected(wrong);
    auto plan = plan_of(spec->module());
    if (!plan) return std::unexpected(plan.error());
    fill_region(spec->module(), *plan, options.explain, region.get());
    put_beside(steps_of(*spec, *plan), region);
    auto server = std::make_unique<ServerImpl>(std::move(spec), options, std::move(*plan), std::move(region));
    if (auto started = server->start(); !started) return std::unexpected(started.error());
    return server;
}

}  // namespace chainio::shadow
