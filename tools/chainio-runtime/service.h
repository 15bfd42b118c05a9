// Call requests over a Unix socket: one JSON object a line in, one a line out, in the order in which chains end.
#pragma once
#include <expected>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/engine/engine.h"
#include "runtime/service/server.h"
#include "tools/chainio-runtime/client.h"
#include "tools/chainio-runtime/request.h"

namespace chainio::runtime_tool {

class Service {
  public:
    Service(engine::Engine& engine, std::vector<OpenFile> files, service::Server* server)
        : engine_(engine), files_(std::move(files)), server_(server) {}
    ~Service();
    Service(const Service&) = delete;
    Service& operator=(const Service&) = delete;

    std::expected<void, std::string> listen(const std::string& path);
    // To be called once, before run(): from then on SIGTERM and SIGINT end run() and nothing else.
    std::expected<void, std::string> watch_signals();
    // Serves until SIGTERM or SIGINT, then answers what it has taken on and returns. A second signal ends it at once.
    std::expected<void, std::string> run();
    std::uint64_t answered() const { return answered_; }

  private:
    struct InFlight {
        std::uint64_t client = 0;  // key in clients_; the client may be gone by the end of the chain
        nlohmann::json id;
        bool used = false;
    };
    static constexpr std::size_t kMostClients = 256;

    void accept_clients();
    void take_lines(std::uint64_t key, Client& client);
    void start(std::uint64_t key, Client& client, const std::string& line);
    std::expected<unsigned, std::string> collect();
    std::expected<void, std::string> drain_server();
    nlohmann::ordered_json service_stats() const;
    void poll_once(int timeout_ms);
    void drop_finished();
    std::string stats() const;

    engine::Engine& engine_;
    std::vector<OpenFile> files_;
    service::Server* server_;  // of the spec's services; null without any
    std::string path_;
    int listener_ = -1, signals_ = -1;
    unsigned stops_ = 0;
    std::map<std::uint64_t, std::unique_ptr<Client>> clients_;
    std::uint64_t next_client_ = 1, answered_ = 0;
    std::vector<InFlight> in_flight_;
    std::vector<std::uint32_t> free_;
    std::vector<engine::Completion> done_;
};

}  // namespace chainio::runtime_tool
