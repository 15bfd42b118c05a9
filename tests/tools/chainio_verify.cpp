// chainio-verify [--loops] ARTIFACT… [--object OBJECT…]: loads every program of each artifact into this kernel's
// verifier, and its loops as the kernel engine does, where the kernel has that interface; and those of the runtime's
// own objects. One line of JSON a file. --loops: of artifacts the loops alone.
#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

#include "compiler/backends/backends.h"
#include "compiler/ir/kernel_handlers.h"
#include "runtime/engine/kernel_server.h"
#include "tests/tools/verified.h"

namespace {

using chainio::backends::VerifyResult;
using chainio::tests::Json;

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

enum class What { all, loops, object };

VerifyResult verified(const std::vector<std::uint8_t>& bytes, What what) {
    if (what == What::loops) return {};
    return what == What::all ? chainio::backends::verify(bytes) : chainio::backends::verify_object(bytes);
}

int verify_one(const char* path, What what) {
    std::ifstream in(path, std::ios::binary);
    const std::vector<std::uint8_t> bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    if (!in || bytes.empty()) {
        fmt::print(stderr, "chainio-verify: {} cannot be read, or is empty\n", path);
        return kSystem;
    }
    const VerifyResult result = verified(bytes, what);
    Json said = chainio::tests::described(path, result);
    bool refused = false;
    said["loop"] = what != What::object ? loop_of(bytes, path, refused) : nullptr;
    said["server"] = what != What::object ? server_of(bytes, path, refused) : nullptr;
    fmt::print("{}\n", chainio::tests::line_of(said));
    if (!result.permitted) return kNotPermitted;
    return result.failed.empty() && !refused ? 0 : kRefused;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 2) {
        std::fputs("chainio-verify: no artifact; usage: chainio-verify [--loops] ARTIFACT… [--object OBJECT…]\n",
                   stderr);
        return kUsage;
    }
    try {
        int worst = 0;
        What what = What::all;
        for (int i = 1; i < argc; i++) {
            if (std::string_view(argv[i]) == "--loops")
                what = What::loops;
            else if (std::string_view(argv[i]) == "--object")
                what = What::object;
            else
                worst = std::max(worst, verify_one(argv[i], what));
        }
        return worst;
    } catch (const std::exception& error) {
        fmt::print(stderr, "chainio-verify: {}\n", error.what());
        return kSystem;
    }
}
