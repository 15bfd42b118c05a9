// What the control socket answers when it is asked for counters.
#include <chrono>
#include <concepts>
#include <nlohmann/json.hpp>
#include <utility>

#include "tools/chainio-runtime/service.h"
#include "tools/chainio/summary.h"

namespace chainio::runtime_tool {
namespace {

nlohmann::ordered_json way_of(cio_xdp_answering how) {
    if (how == CIO_XDP_SILENT) return nullptr;
    return how == CIO_XDP_BY_TX ? "XDP_TX" : "redirect";
}

nlohmann::ordered_json interface_stats(const service::Server& server) {
    auto json = nlohmann::ordered_json::array();
    for (const auto& [port, opened, dropped] : server.interfaces()) {
        const net::PortCounters counters = port->counters();
        json.push_back({{"name", port->interface().name},
                        {"mode", port->describe()},
                        {"opened", opened},
                        {"received", counters.received},
                        {"replies", counters.answered},
                        {"payload_copies", counters.payload_copies},
                        {"pieces", counters.pieces},
                        {"kicks", counters.kicks},
                        {"no_frame", counters.no_frame},
                        {"ring_full", counters.ring_full},
                        {"down", counters.down},
                        {"malformed", counters.malformed},
                        {"taken", counters.taken},
                        {"passed", counters.passed},
                        {"dropped", dropped + counters.dropped},
                        {"invalid", counters.invalid},
                        {"answers_by_itself", port->answering() != CIO_XDP_SILENT},
                        {"answers_by", way_of(port->answering())},
                        {"frames_posted", port->posted()},
                        {"frames_sending", port->sending()},
                        {"unanswered", port->unanswered()}});
    }
    return json;
}

nlohmann::ordered_json kept_stats(const net::KeptCounters& kept) {
    return {{"hits", kept.hits},
            {"misses", kept.misses},
            {"stale", kept.stale},
            {"no_room", kept.no_room},
            {"kept", kept.kept}};
}

// What the runtime's own loop and the kernel's count of a service; what only one of them counts has its place between.
template <class Counters>
nlohmann::ordered_json counters_json(const Counters& of) {
    constexpr bool inside = std::same_as<Counters, engine::KernelServerCounters>;
    nlohmann::ordered_json json{{"connections", of.open},  {"accepted", of.accepted},    {"refused", of.refused},
                                {"requests", of.requests}, {"answered", of.answered},    {"malformed", of.malformed},
                                {"failed", of.failed},     {"unanswered", of.unanswered}};
    if constexpr (!inside)
        json.update({{"displaced", of.displaced},
                     {"idle_closed", of.idle_closed},
                     {"shed", of.shed},
                     {"too_long", of.too_long}});
    json.update({{"timeouts", of.timeouts}, {"vanished", of.vanished}});
    if constexpr (inside)
        json.update({{"partial_sends", of.partial_sends}, {"waited_sends", of.waited_sends}});
    else
        json.update({{"datagrams", of.datagrams},
                     {"dropped", of.dropped},
                     {"reply_too_long", of.reply_too_long},
                     {"payload_copies", of.payload_copies}});
    json.update({{"zero_copy_sends", of.zero_copy_sends},
                 {"zero_copy_copied", of.zero_copy_copied},
                 {"zero_copy_refused", of.zero_copy_refused},
                 {"bytes_in", of.bytes_in},
                 {"bytes_out", of.bytes_out}});
    return json;
}

// Of the requests, those that came to their end, whatever was said to them; one whose reply was given up did not.
template <class Counters>
std::uint64_t ended(const Counters& of) {
    return of.answered + of.malformed + of.failed;
}

// All of them since the start, so that what came between two looks is the difference of these.
nlohmann::ordered_json latencies_json(const metrics::Histogram& of) {
    auto buckets = nlohmann::ordered_json::array();
    of.for_each_bucket([&](std::uint64_t most_ns, std::uint64_t count) { buckets.push_back({most_ns, count}); });
    return {{"count", of.count()}, {"sum", of.sum()}, {"max", of.max()}, {"up_to", std::move(buckets)}};
}

void add_counters(nlohmann::ordered_json& json, const service::ServiceCounters& of) {
    json.update(counters_json(of));
    json["p50_ns"] = of.latency_ns.percentile(50);
    json["p99_ns"] = of.latency_ns.percentile(99);
    json["latencies_ns"] = latencies_json(of.latency_ns);
}

}  // namespace

std::uint64_t Service::answered() const {
    std::uint64_t answers = answered_;
    if (inside_ != nullptr)
        for (const std::uint32_t service : inside_->services()) answers += ended(inside_->loop().counters(service));
    for (std::uint32_t i = 0; server_ != nullptr && i < now_->loaded->module().services.size(); i++)
        answers += ended(server_->counters(i, true)) + ended(server_->counters(i, false)) +
                   ended(server_->ring_counters(i)) + server_->kept(i).value_or(net::KeptCounters{}).hits;
    return answers;
}

nlohmann::ordered_json Service::service_stats() const {
    auto json = nlohmann::ordered_json::array();
    const auto& services = now_->loaded->module().services;
    for (const service::Listening& at : server_->listening()) {
        const service::ServiceCounters& counters = server_->counters(at.service, at.tcp);
        nlohmann::ordered_json one{{"name", services[at.service].name},
                                   {"transport", at.tcp ? "tcp" : "udp"},
                                   {"address", at.address},
                                   {"port", at.port}};
        auto with = nlohmann::ordered_json::array();
        for (const service::Listening& other : server_->listening())
            if (other.service == at.service && other.tcp == at.tcp && other.port != at.port) with.push_back(other.port);
        if (!with.empty()) one["with_ports"] = std::move(with);
        add_counters(one, counters);
        if (const auto kept = at.tcp ? std::nullopt : server_->kept(at.service)) one["cache"] = kept_stats(*kept);
        json.push_back(std::move(one));
    }
    for (std::uint32_t i = 0; i < services.size(); i++) {
        if (!server_->is_reached_by_rings(i)) continue;
        nlohmann::ordered_json one{{"name", services[i].name}, {"transport", "ring"}, {"path", rings_.path()}};
        add_counters(one, server_->ring_counters(i));
        json.push_back(std::move(one));
    }
    return json;
}

// Times are not taken there: each would cost the program a look at the clock.
nlohmann::ordered_json Service::inside_stats() const {
    auto json = nlohmann::ordered_json::array();
    for (const service::Listening& at : inside_->listening()) {
        nlohmann::ordered_json one{{"name", now_->loaded->module().services[at.service].name},
                                   {"transport", "tcp"},
                                   {"inside", true},
                                   {"address", at.address},
                                   {"port", at.port}};
        one.update(counters_json(inside_->loop().counters(at.service)));
        json.push_back(std::move(one));
    }
    return json;
}

nlohmann::ordered_json Service::stats() const {
    nlohmann::ordered_json json;
    json["version"] = CHAINIO_VERSION;
    json["up_seconds"] = std::chrono::floor<std::chrono::seconds>(std::chrono::steady_clock::now() - since_).count();
    json["engine"] = now_->engine->describe();
    json["in_flight"] = in_flight();
    json["edition"] = now_->number;
    json["before_runs"] = before_ != nullptr;  // something of the edition before has not ended yet
    json["reloads"] = {{"done", reloads_}, {"refused", refused_}, {"for_files", for_files_}, {"last", last_}};
    json["leaked_frames"] = leaked_;
    json["clients"] = clients_.size();
    json["fallbacks"] = tool::fallbacks_json(fallbacks_);
    for (auto& fallback : tool::fallbacks_json(now_->engine->fallbacks()))
        json["fallbacks"].push_back(std::move(fallback));
    json["chains"] = nlohmann::ordered_json::array();
    const auto& chains = now_->loaded->module().chains;
    for (std::uint32_t i = 0; i < chains.size(); i++) {
        if (chains[i].mode != ir::ChainMode::call) continue;
        json["chains"].push_back(nlohmann::ordered_json::parse(tool::summary_json(*now_->engine, i, std::nullopt)));
    }
    json["services"] = inside_ != nullptr ? inside_stats() : nlohmann::ordered_json::array();
    if (inside_ != nullptr)
        json["inside"] = {{"engine", inside_->loop().describe()},
                          {"syscalls", inside_->loop().syscalls()},
                          {"program_calls", inside_->loop().program_calls()}};
    if (server_ != nullptr) {
        json["network"] = server_->describe();
        json["requests_running"] = server_->running();
        json["requests_waiting"] = server_->waiting();
        for (auto& service : service_stats()) json["services"].push_back(std::move(service));
        json["interfaces"] = interface_stats(*server_);
        json["interfaces_gone"] = server_->interfaces_gone();
        json["frames_in_use"] = now_->engine->slab().accounting().in_use;
    }
    return json;
}

}  // namespace chainio::runtime_tool
