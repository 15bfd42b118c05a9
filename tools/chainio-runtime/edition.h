// One artifact as it runs: its engine, its open files, and the call requests that the engine has.
#pragma once
#include <chrono>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/engine/engine.h"
#include "runtime/service/server.h"
#include "tools/chainio-runtime/options.h"
#include "tools/chainio-runtime/request.h"

namespace chainio::runtime_tool {

struct Problem {
    int code = kExitFailed;  // the exit code, when it happens at the start
    std::string message;
};

struct Edition {
    struct Call {
        std::uint64_t client = 0;  // who asked; may be gone by the end of the chain
        Request request;
        std::chrono::steady_clock::time_point short_since = {};  // no frame was free for it; none: one was
    };
    std::shared_ptr<const spec::Loaded> loaded;
    std::unique_ptr<engine::Engine> engine;
    std::vector<OpenFile> files;
    service::Plan plan;  // what becomes of the spec's endpoints
    std::vector<service::GivenPort> ports;
    std::vector<Call> calls;
    std::vector<std::uint32_t> free;         // of the calls
    std::vector<std::uint32_t> short_calls;  // which wait for frames that replies lie in
    unsigned number = 1;

    service::Files named_files() const;
    std::string endpoint_text(const service::EndpointPlan& of) const;  // with the port of --port where it is served
    std::vector<std::string> not_served() const;                       // a sentence for each endpoint that is refused
    bool serves() const;         // whether the spec has an endpoint that this runtime serves
    bool serves_inside() const;  // by the kernel engine's loop
};

// Whether the kernel engine is tried beside the user engine. Frames of its own cannot be sent by AF_XDP.
bool tries(const Options& options);
// Why the user engine runs where it is not.
std::string why_untried(const Options& options);
std::expected<std::shared_ptr<const spec::Loaded>, Problem> load(const Options& options);
// The ring that the sockets, the reads of all editions and the daemon's waiting share.
std::expected<std::unique_ptr<ring::Shared>, std::string> make_ring(const Options& options, const ir::Module& module,
                                                                    metrics::Fallbacks& fallbacks);
// What an edition's engine is to be; `ring` may be null: it then looks for one of its own.
engine::EngineOptions engine_options(const Options& options, const ir::Module& module, ring::Shared* ring);
// Without memory that was prepared for it (preparation.h) it makes its own.
std::expected<std::unique_ptr<Edition>, Problem> make_edition(const Options& options,
                                                              std::shared_ptr<const spec::Loaded> loaded,
                                                              ring::Shared* ring,
                                                              std::optional<engine::Engine::Memory> memory = {});
// Raises the limit of open files as far as it goes; what does not do is said here, and not by clients who wait.
std::expected<void, std::string> make_room(const Options& options, const Edition& edition);
// What --file says, for who only wants to know whether it is right; where it says anything, also whether services find
// their files among these.
std::expected<void, Problem> look_at_given(const Options& options, Edition& edition);
// Returns once the file systems of all files that it reads have answered; who opens them behind that waits for none.
void ask_for_files(const Options& options, const ir::Module& module);
// Opens the files that it reads.
std::expected<void, Problem> open_edition(const Options& options, Edition& edition);

}  // namespace chainio::runtime_tool
