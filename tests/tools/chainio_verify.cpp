// chainio-verify ARTIFACT… [--object OBJECT…]: loads every program of each artifact into this kernel's verifier, and
// its loops as the kernel engine does, where the kernel has that interface; and those of the runtime's own objects. One
// line of JSON a file.
#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

#include "compiler/backends/backends.h"
#include "compiler/ir/kernel_handlers.h"
#include "runtime/engine/kernel_server.h"

namespace {

using chainio::backends::VerifyResult;
using Json = nlohmann::ordered_json;

constexpr int kRefused = 1, kUsage = 2, kSystem = 3, kNotPermitted = 4;

constexpr std::uint32_t kFlights = 128;  // 64 chains in flight, and their results

// The loop of an artifact, attached to a ring as the kernel engine does it; null where there is none to load.
Json loop_of(const std::vector<std::uint8_t>& bytes, const std::string& path, bool& refused) {
    using namespace chainio;
    if (!engine::kernel_engine_obstacle().empty()) return nullptr;
    auto spec = spec::Loaded::from_bytes(bytes, path);
    if (!spec || (*spec)->kernel_object().empty()) return nullptr;
    const std::vector<engine::ClassRank> ranks((*spec)->module().classes.size() + 1);
    metrics::Fallbacks fallbacks;
    auto loop = engine::KernelLoop::create(**spec, ranks, {.flights = kFlights, .huge_pages = false}, fallbacks);
    refused = refused || !loop;
    if (!loop) return {{"loads", false}, {"message", loop.error()}};
    return {{"loads", true}, {"processed", (*loop)->instructions_processed()}};
}

// The loop that answers services, likewise, without their sockets and files.
Json server_of(const std::vector<std::uint8_t>& bytes, const std::string& path, bool& refused) {
    using namespace chainio;
    if (!engine::kernel_engine_obstacle().empty()) return nullptr;
    auto spec = spec::Loaded::from_bytes(bytes, path);
    if (!spec || (*spec)->serve_object().empty()) return nullptr;
    std::vector<engine::KernelServer::Listener> listeners;
    for (const std::uint32_t service : ir::kernel_services((*spec)->module())) listeners.push_back({service, -1});
    engine::KernelServer::Options options;
    options.connections = kFlights / 2;
    options.ranks.resize((*spec)->module().classes.size() + 1);
    metrics::Fallbacks fallbacks;
    auto server = engine::KernelServer::create(
        *spec, listeners, [](const ir::CallFile&) -> const engine::OpenedFile* { return nullptr; }, options, fallbacks);
    if (!server) {
        refused = true;
        return {{"loads", false}, {"message", server.error()}};
    }
    return {{"loads", true}, {"processed", (*server)->instructions_processed()}};
}

Json described(const std::string& path, const VerifyResult& result) {
    Json programs = Json::array();
    for (const auto& p : result.loaded) {
        programs.push_back({{"program", p.program},
                            {"loads", true},
                            {"processed", p.instructions_processed},
                            {"peak_states", p.peak_states},
                            {"most_states_per_instruction", p.most_states_per_instruction},
                            {"stack", p.stack}});
    }
    for (const auto& p : result.failed)
        programs.push_back({{"program", p.program}, {"loads", false}, {"message", p.message}});
    return {{"artifact", path}, {"permitted", result.permitted}, {"why", result.why}, {"programs", programs}};
}

int verify_one(const char* path, bool artifact) {
    std::ifstream in(path, std::ios::binary);
    const std::vector<std::uint8_t> bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    if (!in || bytes.empty()) {
        fmt::print(stderr, "chainio-verify: {} cannot be read, or is empty\n", path);
        return kSystem;
    }
    using namespace chainio::backends;
    const VerifyResult result = artifact ? verify(bytes) : verify_object(bytes);
    Json said = described(path, result);
    bool refused = false;
    said["loop"] = artifact ? loop_of(bytes, path, refused) : nullptr;
    said["server"] = artifact ? server_of(bytes, path, refused) : nullptr;
    fmt::print("{}\n", said.dump(-1, ' ', false, Json::error_handler_t::replace));
    if (!result.permitted) return kNotPermitted;
    return result.failed.empty() && !refused ? 0 : kRefused;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 2) {
        std::fputs("chainio-verify: no artifact; usage: chainio-verify ARTIFACT… [--object OBJECT…]\n", stderr);
        return kUsage;
    }
    try {
        int worst = 0;
        bool artifact = true;
        for (int i = 1; i < argc; i++) {
            if (std::string_view(argv[i]) == "--object")
                artifact = false;
            else
                worst = std::max(worst, verify_one(argv[i], artifact));
        }
        return worst;
    } catch (const std::exception& error) {
        fmt::print(stderr, "chainio-verify: {}\n", error.what());
        return kSystem;
    }
}
