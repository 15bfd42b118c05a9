// One artifact, or one set of files, in the place of another: what has begun ends as it began, what comes runs anew.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/socket.h>

#include <algorithm>
#include <iterator>

#include "compiler/diag/utf8.h"
#include "tools/chainio-runtime/say.h"
#include "tools/chainio-runtime/service.h"
#include "tools/chainio/summary.h"

namespace chainio::runtime_tool {
namespace {

constexpr std::chrono::seconds kSayWait{1};  // for the edition before, until that is said
constexpr std::chrono::seconds kSayHeld{5};  // for a look at the files, or an edition that is prepared
constexpr unsigned kZeroCopyInside = 16384;  // bytes of a reply that the kernel engine sends without a copy

std::string names_of(const service::Inside& inside, const ir::Module& module) {
    std::vector<std::string> names;
    for (const std::uint32_t service : inside.services()) names.push_back(module.services[service].name);
    return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

std::expected<void, std::string> Service::begin() {
    watch_.look_after(*now_);
    return now_->serves() ? make_server(*now_) : std::expected<void, std::string>{};
}

std::expected<void, std::string> Service::make_server(Edition& edition) {
    service::ServerOptions wanted = options_.server;
    if (!options_.rings.empty() && rings_.fd() < 0) {
        auto listening = SocketFile::listen(options_.rings, SOCK_SEQPACKET, options_.rings_mode, "--rings");
        if (!listening) return std::unexpected(listening.error());
        rings_ = std::move(*listening);
    }
    wanted.rings = rings_.fd();
    if (options_.zero_copy) wanted.zero_copy_bytes = *options_.zero_copy;
    if (options_.xdp_copy != "automatic")
        wanted.copy = options_.xdp_copy == "copy" ? net::Copy::copy : net::Copy::zero_copy;
    if (options_.xdp_attach != "automatic")
        wanted.attach = options_.xdp_attach == "native" ? net::Attach::native : net::Attach::generic;
    wanted.timeout_ns = std::uint64_t{options_.timeout_ms} * 1'000'000;
    wanted.idle_ns = std::uint64_t{options_.idle_ms} * 1'000'000;
    note_outside(edition);
    if (edition.serves_inside()) {
        if (auto made = make_inside(edition, wanted); !made) return made;
    }
    auto made = make_server_outside(edition, wanted);
    if (!made) inside_.reset();  // it runs over the edition, which ends with this
    return made;
}

std::expected<void, std::string> Service::make_server_outside(Edition& edition, const service::ServerOptions& wanted) {
    if (ring_ == nullptr) {
        // Once more for the reason.
        auto ring = make_ring(options_, edition.loaded->module(), fallbacks_);
        if (!ring) return std::unexpected(ring.error());
        return std::unexpected(std::string("the io_uring can be had only since the start; start again"));
    }
    auto made = service::Server::create(*edition.engine, edition.named_files(), wanted, edition.plan, edition.ports,
                                        *ring_, fallbacks_);
    if (!made) return std::unexpected(made.error());
    server_ = std::move(*made);
    return {};
}

void Service::note_outside(const Edition& edition) {
    const ir::Module& module = edition.loaded->module();
    for (const service::EndpointPlan& plan : edition.plan)
        if (!plan.outside.empty())
            fallbacks_.note("kernel-sockets", fmt::format("service '{}' is answered in user space: {}",
                                                          module.services[plan.service].name, plan.outside));
}

// The services that the kernel can answer leave the server's; where the kernel does not take them, those that are
// `via auto` stay, and that is noted.
std::expected<void, std::string> Service::make_inside(Edition& edition, const service::ServerOptions& wanted) {
    const ir::Module& module = edition.loaded->module();
    auto made = service::Inside::create(*edition.engine, edition.loaded, edition.named_files(),
                                        {.address = wanted.address,
                                         .connections = wanted.connections,
                                         .timeout_ns = wanted.timeout_ns,
                                         .spin_us = options_.spin_us_said(),
                                         .zero_copy_bytes = options_.zero_copy.value_or(kZeroCopyInside)},
                                        edition.plan, edition.ports, fallbacks_);
    if (made) {
        inside_ = std::move(*made);
        auto started = inside_->loop().start();
        if (!started) inside_.reset();
        return started;
    }
    for (const service::EndpointPlan& plan : edition.plan) {
        const ir::Service& service = module.services[plan.service];
        if (!plan.inside || service.endpoints[plan.endpoint].via != "kernel") continue;
        const std::string named = fmt::format("service '{}'", service.name), at = named + ": ";
        const std::string_view error = made.error();
        // What is wrong with one service, as its port or file, would be so in user space.
        const bool of_all = !error.starts_with("service '");
        return std::unexpected(fmt::format("{} is not answered inside the kernel: {}{}", named,
                                           error.substr(error.starts_with(at) ? at.size() : 0),
                                           of_all ? "; write `via auto`" : ""));
    }
    service::place_outside(module, made.error(), edition.plan);
    fallbacks_.note("kernel-sockets", "services are answered in user space: " + made.error());
    return {};
}

// Each fallback is told once, with its reason: what an edition's engine notes again as the one before did is no news.
std::string Service::news() {
    std::string text;
    if (server_ != nullptr)
        for (const std::string& line : server_->take_news()) text += line + "\n";
    const auto& of_engine = now_->engine->fallbacks().all();
    const std::array looked{std::uint64_t{now_->number}, std::uint64_t{of_engine.size()},
                            std::uint64_t{fallbacks_.all().size()}};
    if (std::exchange(looked_for_news_, looked) == looked) return text;
    metrics::Fallbacks fresh;
    for (const auto* all : {&of_engine, &fallbacks_.all()})
        for (const metrics::Fallback& each : *all)
            if (said_.emplace(each.name, each.reason).second) fresh.note(each.name, each.reason, each.count);
    return text + tool::fallbacks_text(fresh);
}

// Where, and how it is served there.
std::vector<std::pair<std::string, std::string>> Service::endpoints() const {
    std::vector<std::pair<std::string, std::string>> all;
    const auto add = [&](const service::Listening& at, const std::string& how) {
        all.emplace_back(fmt::format("service {} at {} {} port {}", now_->loaded->module().services[at.service].name,
                                     at.tcp ? "tcp" : "udp", at.address, at.port),
                         how);
    };
    if (inside_ != nullptr)
        for (const service::Listening& at : inside_->listening()) add(at, inside_->loop().describe());
    if (server_ != nullptr)
        for (const service::Listening& at : server_->listening()) add(at, server_->describe());
    const auto& services = now_->loaded->module().services;
    for (std::uint32_t i = 0; server_ != nullptr && i < services.size(); i++)
        if (server_->is_reached_by_rings(i))
            all.emplace_back(fmt::format("service {} at rings '{}'", services[i].name, diag::escaped(rings_.path())),
                             "shared memory");
    return all;
}

// Endpoints that a line has not told of yet, as after a reload with another port.
std::string Service::fresh_endpoints() {
    std::string text;
    std::set<std::string> now;
    for (const auto& [at, how] : endpoints()) {
        if (!told_endpoints_.contains(at)) text += fmt::format("{}: {}\n", at, how);
        now.insert(at);
    }
    told_endpoints_ = std::move(now);
    return text;
}

std::string Service::report() {
    const std::string text = fresh_endpoints();
    return news() + text;
}

// True when the name of an open file leads to another file by now.
bool Service::look_at_files() {
    if (watch_.is_done()) take_look();
    // Where there is no thread, it is done as soon as it has begun; the next one is another turn's, as it may take
    // long.
    if (!watch_.is_looking() && begin_look() && watch_.is_done()) take_look();
    if (watch_.is_looking()) tell_held_look();
    return files_due_;
}

// Once a second, and for who asks: each has a look that begins behind that, once nothing of the edition before runs.
bool Service::begin_look() {
    const bool asked = !forgetting_.empty() && before_ == nullptr;
    if (watch_.empty()) {
        if (asked) answer_all(forgetting_, {});
        return false;
    }
    const auto now = std::chrono::steady_clock::now();
    if (!asked && now - looked_ < std::chrono::milliseconds(kLookMs)) return false;
    looked_ = now;
    held_told_ = false;
    if (asked) looked_for_ = std::exchange(forgetting_, {});
    if (watch_.begin()) return true;
    fallbacks_.note("looks-wait",
                    "no thread can be had to look whether files were replaced, so that requests wait for that, and for "
                    "a file system that does not answer; the limit of processes (`ulimit -u`, TasksMax= of a systemd "
                    "unit) or of open files is met");
    return true;
}

void Service::take_look() {
    for (const FileWatch::Notice& notice : watch_.take()) {
        say(diag::escaped(notice.message) + "\n");
        if (notice.changed && !std::exchange(files_due_, true)) file_notice_ = notice.message;
    }
    looked_ = std::chrono::steady_clock::now();
    files_owed_ = files_owed_ || files_due_;
    // A newer file that could not be opened is tried again when somebody asks, as the older one is read until then.
    if (looked_for_.empty()) return;
    files_due_ = files_owed_;
    if (!files_due_) answer_all(looked_for_, {});
}

void Service::tell_held_look() {
    if (held_told_ || std::chrono::steady_clock::now() - looked_ < kSayHeld) return;
    held_told_ = true;
    say(diag::escaped(fmt::format("'{}': its file system has not answered for {} seconds; until it does, no file is "
                                  "looked at, and what was opened is read further",
                                  watch_.at(), kSayHeld.count())) +
        "\n");
}

void Service::tell_held_reload() {
    if (reload_.held_told || std::chrono::steady_clock::now() - reload_.begun < kSayHeld) return;
    reload_.held_told = true;
    say(
        fmt::format("a reload is not prepared after {} seconds, as where a file system does not answer; until it is, "
                    "what was opened is read further\n",
                    kSayHeld.count()));
}

// What is to be opened anew waits for the end of the edition before. Where that takes a while, it is said, once an
// edition: whoever has replaced a file would look for it in what is answered.
void Service::tell_wait() {
    const bool asked = hung_up_ || !asked_.empty() || !forgetting_.empty();
    if (!look_at_files() && !asked) return;
    const auto now = std::chrono::steady_clock::now();
    if (std::exchange(waiting_for_, before_->number) != before_->number) wait_told_ = now + kSayWait;
    if (now < wait_told_) return;
    wait_told_ = std::chrono::steady_clock::time_point::max();
    say(fmt::format("the next reload waits for edition {} to end: requests, connections or reads of it go on\n",
                    before_->number));
}

// Two editions at most are there at once, so that a reload waits for the end of what the one before has begun. Who asks
// while one is being prepared has the next one: what it reads may be older than what he means.
void Service::reload_if_due() {
    if (before_ != nullptr) return tell_wait();
    if (preparing_ != nullptr) {
        if (!preparing_->is_done()) return tell_held_reload();
        auto prepared = preparing_->take();
        preparing_.reset();
        return finish_reload(std::move(prepared));
    }
    const bool asked = hung_up_ || !asked_.empty();
    if (asked || look_at_files()) begin_reload(asked);
}

void Service::begin_reload(bool artifact) {
    manager_.tell(fmt::format("RELOADING=1\nMONOTONIC_USEC={}", std::chrono::duration_cast<std::chrono::microseconds>(
                                                                    std::chrono::steady_clock::now().time_since_epoch())
                                                                    .count()));
    hung_up_ = false;
    // Where the artifact is refused, the files are opened with the one that there is.
    if (!artifact) files_due_ = false;
    std::ranges::move(looked_for_, std::back_inserter(forgetting_));
    looked_for_.clear();
    reload_ = {.for_files = !artifact,
               .why = artifact ? "asked to" : file_notice_,
               .asked = std::exchange(asked_, {}),
               .forgetting = std::exchange(forgetting_, {}),
               .begun = std::chrono::steady_clock::now()};
    if (inside_ != nullptr) {
        const std::string names = names_of(*inside_, now_->loaded->module());
        return finish_reload(std::unexpected(Problem{
            kExitFailed, fmt::format("services that run inside the kernel ({}) are not exchanged while they run; start "
                                     "again",
                                     names)}));
    }
    auto loaded = artifact ? nullptr : now_->loaded;
    preparing_ = Preparation::begin(options_, loaded);
    if (preparing_ != nullptr) return;
    fallbacks_.note("reload-waits",
                    "no thread can be had to prepare a reload, so that requests wait for it; the limit "
                    "of processes (`ulimit -u`, TasksMax= of a systemd unit) or of open files is met");
    finish_reload(prepare(options_, std::move(loaded)));
}

void Service::finish_reload(std::expected<Prepared, Problem> prepared) {
    told(take_over(std::move(prepared)));
    for_files_ += reload_.for_files;
    manager_.tell("READY=1\nSTATUS=" + diag::escaped(last_));
}

// The one that is being prepared, and those that wait for it or for the end of the edition before.
void Service::give_up_reloads() {
    const std::unexpected stops(Problem{kExitFailed, "the daemon stops"});
    if (preparing_ != nullptr) told(stops);
    for (auto* asked : {&asked_, &forgetting_, &looked_for_}) answer_all(*asked, stops);
}

// Of `invalidate` it means that the files from which replies are made are those that their names lead to by now.
void Service::answer_all(std::vector<Asked>& asked, const std::expected<void, Problem>& result,
                         const std::vector<std::string>& refused) {
    for (const Asked& each : asked) {
        nlohmann::ordered_json json;
        json["id"] = each.id;
        if (!result) json["error"] = result.error().message;
        // Of one that is refused, the edition that goes on; at the end of the daemon there is none.
        if (result || stops_ == 0) json["edition"] = now_->number;
        if (result && !refused.empty()) json["refused"] = refused;
        answer(each.client, json_line(json));
    }
    asked.clear();
}

std::expected<void, Problem> Service::take_over(std::expected<Prepared, Problem> prepared) {
    if (!prepared) return std::unexpected(prepared.error());
    auto next = complete(options_, std::move(*prepared), ring_.get(), server_ != nullptr);
    if (!next) return std::unexpected(next.error());
    (*next)->number = now_->number + 1;
    std::expected<void, std::string> taken;
    if (server_ != nullptr) {
        taken = server_->reload(*(*next)->engine, (*next)->named_files(), (*next)->plan, (*next)->ports);
        if (taken) note_outside(**next);
    } else if ((*next)->serves()) {
        taken = make_room(options_, **next);
        if (taken) taken = make_server(**next);
    }
    if (!taken) return std::unexpected(Problem{kExitSystem, taken.error()});
    before_ = std::move(now_);
    now_ = std::move(*next);
    watch_.look_after(*now_);
    files_due_ = files_owed_ = false;
    return {};
}

void Service::told(const std::expected<void, Problem>& result) {
    const auto refused = now_->not_served();
    if (result) {
        reloads_++;
        last_ = fmt::format("edition {} of '{}' runs ({})", now_->number, options_.spec, reload_.why);
        for (const std::string& each : refused) last_ += "; " + each;
    } else {
        refused_++;
        last_ = fmt::format("edition {} goes on, the reload ({}) is refused: {}", now_->number, reload_.why,
                            result.error().message);
    }
    say(diag::escaped(last_) + "\n" + (result ? fresh_endpoints() : ""));
    answer_all(reload_.asked, result, refused);
    answer_all(reload_.forgetting, result);
}

// Lets go of the edition before once nothing of it runs any more, and looks whether it gave all frames back. Reads of
// chains that were given up have some until they end, and whoever ends the engine before waits for them.
void Service::end_edition() {
    if (before_ == nullptr || before_->engine->in_flight() > 0 || before_->engine->reads_under_way() > 0) return;
    if (!before_->short_calls.empty()) return;
    if (server_ != nullptr && server_->reloading()) return;
    tell_leaks(*before_);
    before_.reset();
    // What it had locked counted for the limit of locked memory (RLIMIT_MEMLOCK) when this one was made.
    now_->engine->register_rest();
}

void Service::tell_leaks(const Edition& edition) {
    for (const std::string& leak : edition.engine->leaks()) {
        leaked_++;
        say(fmt::format("edition {} has not given back: {}\n", edition.number, leak));
    }
}

}  // namespace chainio::runtime_tool
