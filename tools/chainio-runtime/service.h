// Call requests over a Unix socket: one JSON object a line in, one a line out, in the order in which chains end.
#pragma once
#include <array>
#include <chrono>
#include <climits>
#include <expected>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/engine/engine.h"
#include "runtime/service/inside.h"
#include "runtime/service/server.h"
#include "tools/chainio-runtime/client.h"
#include "tools/chainio-runtime/edition.h"
#include "tools/chainio-runtime/notify.h"
#include "tools/chainio-runtime/preparation.h"
#include "tools/chainio-runtime/request.h"
#include "tools/chainio-runtime/socket_file.h"
#include "tools/chainio-runtime/waits.h"
#include "tools/chainio-runtime/watch.h"

namespace chainio::runtime_tool {

class Service {
  public:
    static constexpr std::size_t kMostClients = 256;  // of the control socket

    // Without a ring no service can be served, and engines look for one of their own. The manager outlives it.
    Service(const Options& options, Manager& manager, metrics::Fallbacks fallbacks, std::unique_ptr<ring::Shared> ring,
            std::unique_ptr<Edition> edition);
    ~Service();
    Service(const Service&) = delete;
    Service& operator=(const Service&) = delete;

    // Listens for the spec's services, when it has any that are served here.
    std::expected<void, std::string> begin();
    std::expected<void, std::string> listen(const std::string& path);
    // To be called once, before run(): from then on SIGTERM and SIGINT end run(), and SIGHUP has the artifact and the
    // files opened anew.
    std::expected<void, std::string> watch_signals();
    // Serves until SIGTERM or SIGINT, then answers what it has taken on and returns. A second signal ends it at once.
    std::expected<void, std::string> run();
    // After run(): ends the process where reads have not ended, or a reload is being prepared, instead of waiting.
    void leave_if_held();
    // Behind that: what serves ends, and looks whether the editions gave all frames back.
    void end();
    std::uint64_t answered() const;
    // What is served where, a line each, and what does not go the way it was meant to.
    std::string report();

  private:
    struct Asked {
        std::uint64_t client = 0;
        nlohmann::json id;
    };
    static constexpr int kLookMs = 1000;  // between two looks at the files' names

    // service.cpp: clients of the control socket
    void accept_clients();
    void take_lines(std::uint64_t key, Client& client);
    bool start(std::uint64_t key, Client& client, const std::string& line);
    void answer(std::uint64_t client, const std::string& line);
    bool may_start() const;
    bool may_take_line(const Client& client) const;
    std::expected<unsigned, std::string> collect(unsigned most = UINT_MAX);
    std::expected<unsigned, std::string> collect_from(Edition& edition, unsigned most);
    bool waits_for_memory(Edition& edition, std::uint32_t slot);
    void call_again(Edition& edition);
    void end_call(Edition& edition, std::uint32_t slot, const std::string& line);
    static bool must_be_waited_for(engine::Engine& engine);
    std::expected<void, std::string> wait(int timeout_ms);
    void take_signals();
    void serve_client(std::uint64_t key, std::uint32_t events);
    void drop_finished();
    // service_run.cpp
    std::expected<bool, std::string> serve_what_came();
    std::expected<void, std::string> hand_over();
    std::expected<void, std::string> drain_server();
    std::expected<void, std::string> drain_inside();
    std::expected<void, std::string> drain_reads();
    unsigned in_flight() const;
    unsigned reads() const;
    std::size_t calls_in_flight() const;
    bool has_ready() const;
    bool must_not_wait() const;
    int next_timeout_ms() const;
    void tell_overload(bool at_end);
    void tell_choice();
    void tell_news();
    // service_reload.cpp
    std::expected<void, std::string> make_server(Edition& edition);
    std::expected<void, std::string> make_server_outside(Edition& edition, const service::ServerOptions& wanted);
    std::expected<void, std::string> make_inside(Edition& edition, const service::ServerOptions& wanted);
    void note_outside(const Edition& edition);
    std::string news();
    std::vector<std::pair<std::string, std::string>> endpoints() const;
    std::string fresh_endpoints();
    void reload_if_due();
    void begin_reload(bool artifact);
    void finish_reload(std::expected<Prepared, Problem> prepared);
    void give_up_reloads();
    bool look_at_files();
    bool begin_look();
    void take_look();
    void tell_held_look();
    void tell_held_reload();
    void tell_wait();
    // `refused`: endpoints that are not served though the reload is done.
    void answer_all(std::vector<Asked>& asked, const std::expected<void, Problem>& result,
                    const std::vector<std::string>& refused = {});
    std::expected<void, Problem> take_over(std::expected<Prepared, Problem> prepared);
    void told(const std::expected<void, Problem>& result);
    void end_edition();
    void tell_leaks(const Edition& edition);
    // service_stats.cpp
    nlohmann::ordered_json service_stats() const;
    nlohmann::ordered_json inside_stats() const;
    nlohmann::ordered_json stats() const;

    const Options& options_;
    Manager& manager_;
    metrics::Fallbacks fallbacks_;        // of the ring and the server
    std::unique_ptr<ring::Shared> ring_;  // of the sockets and of all editions' reads
    std::unique_ptr<Waits> waits_;
    std::unique_ptr<Edition> now_, before_;    // before_: what runs under it has not ended
    std::unique_ptr<service::Server> server_;  // ends before the engines that it uses
    std::unique_ptr<service::Inside> inside_;  // what the kernel answers by itself
    FileWatch watch_;
    std::chrono::steady_clock::time_point looked_, told_;
    bool held_told_ = false;                              // that the look is kept waiting
    std::chrono::steady_clock::time_point accept_again_;  // clients of the control socket, after a shortage
    std::chrono::steady_clock::time_point call_again_;    // those that found no memory
    bool frames_return_ = true;                           // that replies lie in: until the server has ended
    struct Told {
        std::uint64_t shed = 0, dropped = 0, refused = 0, displaced = 0;
    };
    std::map<std::string, Told> overload_;                // by service, as far as it was told
    std::map<std::string, std::uint64_t> dropped_;        // by interface, likewise
    std::set<std::pair<std::string, std::string>> said_;  // fallbacks, by name and reason
    std::set<std::string> told_endpoints_;                // those that a line has said are served
    std::array<std::uint64_t, 3> looked_for_news_{};      // the edition, its engine's fallbacks and ours, as they were
    SocketFile control_, rings_;
    int signals_ = -1;
    unsigned stops_ = 0;
    unsigned choosing_ = 0;  // the edition whose engine is not chosen yet
    bool hung_up_ = false;
    struct Reload {
        bool for_files = false;  // as these are others, and not the artifact
        std::string why = {};
        std::vector<Asked> asked = {}, forgetting = {};  // who is to be told what came of it
        std::chrono::steady_clock::time_point begun = {};
        bool held_told = false;  // that it takes long
    };
    Reload reload_;                           // that has begun
    std::unique_ptr<Preparation> preparing_;  // its edition
    std::vector<Asked> asked_;                // for a reload, by the control socket
    std::vector<Asked> forgetting_;           // whether files are others, likewise: what was kept is forgotten already
    std::vector<Asked> looked_for_;           // likewise, since when a look at the files has begun
    std::string file_notice_;                 // why files are to be opened anew
    bool files_due_ = false;                  // that is to be begun
    bool files_owed_ = false;                 // that was tried in vain
    unsigned waiting_for_ = 0;                // the edition whose end the next reload waits for
    std::chrono::steady_clock::time_point wait_told_;  // when that is to be said
    const std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
    unsigned reloads_ = 0, refused_ = 0, for_files_ = 0;
    std::uint64_t leaked_ = 0;
    std::string last_;  // what came of the last reload
    std::map<std::uint64_t, std::unique_ptr<Client>> clients_;
    std::uint64_t next_client_ = 1, answered_ = 0;
    std::vector<engine::Completion> done_;
};

}  // namespace chainio::runtime_tool
