// The server's end of the preload library, for tests: makes a region from a plan, and prints each event as a line of
// JSON.
//
// usage: shim_server REGION < PLAN   where PLAN is one line: {"classes": ["*.idx"], "sockets": [{"port": 1, "tcp": 1}],
// "exes": [], "explain": false, "disk": 0 (a number of one that is known), "posts": {"class": 3, "socket": 4},
// "on_its_way": FILE, "holds": true (it says that it has files open, and at "deaf" never lets go of any)}. Of FILE, in
// a class that is immutable then, all pages are on their way into memory that programs are served from, and never come.
// It prints "ready", and serves until its input ends or says "stop". A line "asleep" makes it sleep as far as programs
// can see; the next line of its output after all programs' events counts wakes.
#include <linux/futex.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "runtime/shadow/region.h"
#include "runtime/shadow/served.h"
#include "runtime/shim/protocol.h"

using chainio::shim::Event;
using chainio::shim::EventKind;
using chainio::shim::Region;
using chainio::shim::Ring;
using nlohmann::json;

namespace {

const char* const kKinds[] = {"skip",         "opened", "read",   "ready",        "probe",       "closed",
                              "passed",       "note",   "loop",   "begun",        "ended",       "served",
                              "served_ended", "ran",    "direct", "direct_begun", "direct_ended"};

void copy_text(char* to, std::size_t room, const std::string& text) {
    std::memcpy(to, text.c_str(), std::min(room - 1, text.size()));
}

void fill(Region& region, const json& plan) {
    const auto posts = plan.value("posts", json::object());
    for (const auto& pattern : plan.value("classes", json::array()))
        copy_text(region.plan.classes[region.plan.class_count++].pattern, chainio::shim::kMaxPattern, pattern);
    for (const auto& socket : plan.value("sockets", json::array())) {
        auto& rule = region.plan.sockets[region.plan.socket_count++];
        rule.port = socket.at("port");
        rule.tcp = socket.at("tcp");
    }
    for (const auto& exe : plan.value("exes", json::array()))
        copy_text(region.plan.exes[region.plan.exe_count++], chainio::shim::kMaxPattern, exe);
    region.plan.explain = plan.value("explain", false) ? 1 : 0;
    for (auto& bits : region.class_posts) bits = posts.value("class", 3U);
    for (auto& bits : region.socket_posts) bits = posts.value("socket", 4U);
    region.disks[0].device = plan.value("disk", 0ULL);
    region.holds_files = plan.value("holds", false) ? 1 : 0;
    region.least_read[0] = plan.value("least_read", 0U);
    region.version = chainio::shim::kVersion;
    region.bytes = static_cast<std::uint32_t>(chainio::shim::kRegionBytes);
    region.server = static_cast<std::uint32_t>(plan.value("server", getpid()));
    region.magic = plan.value("magic", chainio::shim::kMagic);
}

// Null when there is nothing to serve from.
std::unique_ptr<chainio::shadow::ServedMemory> serve(Region& region, const std::string& path, const std::string& file) {
    constexpr std::uint64_t kBytes = 1 << 20;
    constexpr std::uint32_t kPage = chainio::shim::kServedPage;
    struct stat status;
    if (file.empty() || stat(file.c_str(), &status) != 0) return nullptr;
    auto memory =
        chainio::shadow::ServedMemory::create(path.substr(0, path.rfind('/')) + chainio::shim::kServedFile, kBytes);
    if (!memory) return nullptr;
    const auto size = static_cast<std::uint64_t>(status.st_size);
    const auto id = (*memory)->add({status.st_dev, status.st_ino, chainio::shim::stamp_of(status), size, 1, 512});
    (*memory)->begin(id, 0, static_cast<std::uint32_t>(size / kPage));
    region.plan.classes[0].flags = chainio::shim::kImmutable;
    region.served = (*memory)->bytes();
    return std::move(*memory);
}

void print(const Event& event, const std::uint8_t* payload, unsigned ring, std::uint32_t owner) {
    constexpr EventKind kWithout[] = {EventKind::read,   EventKind::begun,        EventKind::ended,
                                      EventKind::direct, EventKind::direct_begun, EventKind::direct_ended,
                                      EventKind::served, EventKind::served_ended, EventKind::closed};
    const bool has_payload = std::ranges::find(kWithout, event.kind) == std::end(kWithout);
    std::string text(reinterpret_cast<const char*>(payload), has_payload ? event.length : 0);
    json line = {{"kind", kKinds[static_cast<int>(event.kind)]},
                 {"source", event.source},
                 {"process", event.process},
                 {"device", event.device},
                 {"inode", event.inode},
                 {"offset", event.offset},
                 {"length", event.length},
                 {"took", event.took_ns},
                 {"ring", ring},
                 {"thread", owner}};
    if (has_payload) line["text"] = text;
    std::uint32_t asked = event.length;
    if (!has_payload && event.bytes > sizeof event) std::memcpy(&asked, payload, sizeof asked);
    if (asked != event.length) line["asked"] = asked;
    std::cout << line.dump(-1, ' ', true, json::error_handler_t::replace) << '\n';
}

void let_go(Region& region) {
    if (region.let_go == region.removals) return;
    region.let_go = region.removals.load();
    syscall(SYS_futex, &region.let_go, FUTEX_WAKE, INT_MAX);
}

// Prints what a ring holds. An event that breaks the ring's rules ends the test.
void drain(Region& region, unsigned index) {
    Ring& ring = region.rings[index];
    std::uint32_t head = ring.head;
    while (head != ring.tail.load(std::memory_order_acquire)) {
        const std::uint32_t at = head % chainio::shim::kRingBytes, rest = chainio::shim::kRingBytes - at;
        if (rest < sizeof(Event)) {
            head += rest;
            continue;
        }
        Event event;
        std::memcpy(&event, ring.data + at, sizeof event);
        const auto kind = static_cast<unsigned>(event.kind);
        if (event.bytes < sizeof event || event.bytes % 8 != 0 || event.bytes > rest || kind >= std::size(kKinds)) {
            std::cout << json{{"kind", "BROKEN"}, {"at", head}, {"bytes", event.bytes}}.dump() << std::endl;
            std::_Exit(1);
        }
        if (event.kind != EventKind::skip)
            print(event, ring.data + at + sizeof event, index, region.holders[index].owner);
        head += event.bytes;
        ring.head = head;
    }
    ring.head = head;
}

void drain_all(Region& region) {
    for (unsigned i = 0; i < chainio::shim::kRings; ++i) {
        drain(region, i);
        if (region.holders[i].owner != 0) region.serves[i] = region.holders[i].process.load();
    }
}

json sums(const Region& region) {
    json owners = json::array();
    std::uint64_t lost = 0;
    for (const auto& ring : region.rings) lost += ring.lost;
    for (const auto& holder : region.holders)
        if (holder.owner != 0) owners.push_back(holder.owner.load());
    return {{"kind", "end"},
            {"lost", lost},
            {"owners", owners},
            {"no_ring", region.stats.no_ring.load()},
            {"asleep", region.asleep.load()},
            {"rewriting",
             {{"programs", region.rewriting.programs.load()},
              {"sites", region.rewriting.sites.load()},
              {"calls", region.rewriting.calls.load()},
              {"missed", region.rewriting.missed.load()}}}};
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) return 2;
    std::string line;
    std::getline(std::cin, line);
    Region* region = chainio::shadow::make_region(argv[1]) ? chainio::shadow::map_region(argv[1], true) : nullptr;
    if (!region) {
        std::perror(argv[1]);
        return 1;
    }
    const json plan = json::parse(line);
    fill(*region, plan);
    const auto memory = serve(*region, argv[1], plan.value("on_its_way", ""));
    std::cout << "ready" << std::endl;
    bool draining = true, hearing = true;
    while (true) {
        pollfd input{STDIN_FILENO, POLLIN, 0};
        const bool said = poll(&input, 1, 1) > 0;
        if (said && (!std::getline(std::cin, line) || line == "stop")) break;
        if (said && line == "asleep") region->asleep = 1;
        if (said && line == "rests") region->rests = 1;
        if (said && line == "full") draining = false;  // leaves what comes where it is
        if (said && line == "gone") region->server = 0;
        if (said && line == "quiet") region->class_posts[0] = chainio::shim::kPostOpens;
        if (said && line == "deaf") hearing = false;
        if (draining) drain_all(*region);
        if (hearing) let_go(*region);
        if (said) {
            const json answer = {
                {"kind", "said"}, {"asleep", region->asleep.load()}, {"removals", region->removals.load()}};
            std::cout << answer.dump() << std::endl;
        }
    }
    drain_all(*region);
    std::cout << sums(*region).dump() << std::endl;
}
