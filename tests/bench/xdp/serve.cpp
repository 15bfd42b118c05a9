// Answers requests over AF_XDP. The first byte of a request says what is wanted: R OFFSET LENGTH (u32le each): that
// stretch of --file, read by io_uring into the frame that leaves; L LENGTH: that many bytes in the request's own frame;
// D: nothing. Anything else comes back as it is. With --worker another process, which maps the region, makes the
// answers.
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "runtime/ring/ring.h"
#include "runtime/umem/descriptor_ring.h"
#include "tests/bench/open_port.h"
#include "tests/bench/xdp/bench_xdp.h"

namespace chainio::bench {
namespace {

constexpr umem::Owner kRings = 1, kReading = 2;
constexpr std::uint32_t kRingEntries = 1024;

std::uint32_t u32_at(const std::uint8_t* bytes) {
    std::uint32_t value = 0;
    std::memcpy(&value, bytes, sizeof value);
    return value;
}

// The other process: knows the memfd and where the two rings lie, and nothing else.
[[noreturn]] void work(int fd, umem::Frame requests, umem::Frame answers) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    auto region = umem::Region::attach(fd);
    if (!region) _exit(3);
    const auto memory = [&](umem::Frame frame) {
        return std::span(region->base() + std::size_t{frame} * umem::kUnit, umem::ring_bytes(kRingEntries));
    };
    auto in = umem::Consumer::attach(memory(requests), {.region_bytes = region->size(), .classes = 1});
    auto out = umem::Producer::attach(memory(answers));
    if (!in || !out) _exit(3);
    for (;;) {
        umem::Descriptor descriptor{};
        const auto popped = in->pop(descriptor);
        if (!popped) continue;
        if (!*popped) {
            sched_yield();
            continue;
        }
        std::uint8_t* payload = region->base() + std::size_t{descriptor.frame} * umem::kUnit + descriptor.offset;
        const bool drop = descriptor.length > 0 && payload[0] == 'D';
        if (descriptor.length > 0 && !drop) payload[0] = 'W';
        // A request for a hostile answer, so that the other side's checks are seen at work.
        if (descriptor.length > 1 && payload[1] == 'X') {
            umem::Descriptor bad = descriptor;
            bad.frame = umem::kNoFrame;
            while (out->push(bad) == false) sched_yield();
        }
        descriptor.kind = drop ? umem::Kind::release : umem::Kind::send;
        while (out->push(descriptor) == false) sched_yield();
    }
}

class Server {
  public:
    Server(const Options& options, umem::Slab& slab) : options_(options), slab_(slab) {}
    ~Server() {
        if (worker_ > 0) {
            kill(worker_, SIGKILL);
            waitpid(worker_, nullptr, 0);
        }
        for (const umem::Frame frame : rings_) {
            if (frame != umem::kNoFrame) slab_.release(frame, kRings);
        }
        if (file_ >= 0) close(file_);
    }
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    std::string open() {
        if (!options_.file.empty()) {
            file_ = ::open(options_.file.c_str(), O_RDONLY | O_CLOEXEC);
            if (file_ < 0) return options_.file + ": " + std::strerror(errno);
            auto ring = ring::Ring::create({}, fallbacks_);
            if (!ring) return ring.error();
            ring_ = std::move(*ring);
            if (ring_->register_region(slab_.region().base(), slab_.region().size(), fallbacks_) !=
                slab_.region().size())
                return "the region could not be registered as fixed buffers";
            ring_->bind_to_thread();
        }
        if (options_.worker) start_worker();
        auto port = open_port(options_.port, slab_, fallbacks_);
        if (!port) return port.error().message;
        port_ = std::move(*port);
        return {};
    }

    void run() {
        std::vector<umem::Descriptor> batch(64);
        Patience patience;
        while (!stopped()) {
            const std::size_t count = port_->receive(batch);
            for (std::size_t i = 0; i < count; i++) take(batch[i]);
            const bool worked = take_from_worker();
            port_->flush();
            if (count != 0 || worked) {
                patience.worked();
            } else if (waiting_ != 0) {
                sched_yield();
            } else if (patience.over()) {
                port_->wait(20);
            }
        }
    }

    net::Port& port() { return *port_; }
    nlohmann::ordered_json report() {
        const net::PortCounters c = port_->counters();
        nlohmann::ordered_json json{{"received", c.received},
                                    {"answered", c.answered},
                                    {"released", c.released},
                                    {"malformed", c.malformed},
                                    {"copies", c.payload_copies},
                                    {"kicks", c.kicks},
                                    {"no_frame", c.no_frame},
                                    {"ring_full", c.ring_full},
                                    {"down", c.down},
                                    {"taken", c.taken},
                                    {"passed", c.passed},
                                    {"dropped", c.dropped},
                                    {"invalid", c.invalid},
                                    {"unanswered", port_->unanswered()},
                                    {"faults", faults_},
                                    {"errors", errors_}};
        // Every frame in use is one that somebody knows of; closing would take back a forgotten one without a word.
        const std::uint64_t known =
            port_->posted() + port_->sending() + port_->unanswered() + (options_.worker ? rings_.size() : 0);
        json["strays"] = static_cast<std::int64_t>(slab_.accounting().in_use - known);
        json["by_queue"] = std::vector(by_queue_.begin(), by_queue_.begin() + port_->queues());
        for (const auto& fallback : fallbacks_.all()) json["fallbacks"][fallback.name] = fallback.reason;
        return json;
    }
    void close_port() { port_.reset(); }

  private:
    void start_worker() {
        for (umem::Frame& frame : rings_) {
            frame = slab_.allocate(static_cast<std::uint32_t>(umem::ring_bytes(kRingEntries)), kRings);
            static_cast<void>(umem::make_ring({slab_.data(frame), slab_.frame_bytes(frame)}, kRingEntries));
        }
        worker_ = fork();
        if (worker_ == 0) work(slab_.region().fd(), rings_[0], rings_[1]);
        const auto memory = [&](umem::Frame frame) { return std::span(slab_.data(frame), slab_.frame_bytes(frame)); };
        to_worker_ = *umem::Producer::attach(memory(rings_[0]));
        from_worker_ =
            *umem::Consumer::attach(memory(rings_[1]), {.region_bytes = slab_.region().size(), .classes = 1});
    }

    void take(const umem::Descriptor& request) {
        by_queue_[request.target]++;
        if (to_worker_) {
            const auto pushed = to_worker_->push(request);
            pushed && *pushed ? static_cast<void>(waiting_++) : refuse(request, "worker_full");
            return;
        }
        net::Parts parts;
        const std::size_t count = port_->parts(request, parts);
        const std::span<const std::uint8_t> first = count > 0 ? parts[0] : std::span<std::uint8_t>{};
        const char what = first.empty() ? 'E' : static_cast<char>(first[0]);
        if (what == 'D') {
            port_->release(request);
        } else if (what == 'L' && first.size() >= 5) {
            done(request, port_->answer(request, u32_at(&first[1])));
        } else if (what == 'R' && first.size() >= 9 && ring_) {
            read(request, u32_at(&first[1]), u32_at(&first[5]));
        } else {
            done(request, port_->answer(request, request.length));
        }
    }

    // The error's name instead of the answer.
    void refuse(const umem::Descriptor& request, std::string_view name) {
        errors_[std::string(name)] = errors_.value(std::string(name), 0) + 1;
        std::memcpy(slab_.data(request.frame) + request.offset, name.data(), name.size());
        if (!port_->answer(request, static_cast<std::uint32_t>(name.size()))) port_->release(request);
    }
    void done(const umem::Descriptor& request, std::expected<void, net::AnswerError> answered) {
        if (!answered) refuse(request, name_of(answered.error()));
    }

    // From the file into a frame of the region, and the same frame to the network, as services do.
    void read(const umem::Descriptor& request, std::uint32_t offset, std::uint32_t length) {
        if (length > port_->longest_reply(request)) return refuse(request, name_of(net::AnswerError::too_large));
        const umem::Frame frame = slab_.allocate(std::max(net::kRoomForHeaders + length, net::kChunk), kReading);
        if (frame == umem::kNoFrame) return refuse(request, "no_frame");
        io_uring_sqe* sqe = io_uring_get_sqe(ring_->get());
        io_uring_prep_read_fixed(sqe, file_, slab_.data(frame) + net::kRoomForHeaders, length, offset, 0);
        io_uring_submit_and_wait(ring_->get(), 1);
        io_uring_cqe* cqe = nullptr;
        io_uring_wait_cqe(ring_->get(), &cqe);
        const int got = cqe->res;
        io_uring_cqe_seen(ring_->get(), cqe);
        if (got < 0 || !port_->begin_reply({&frame, 1}, kReading)) {
            slab_.release(frame, kReading);
            return refuse(request, "io_error");
        }
        umem::Descriptor data{};
        data.kind = umem::Kind::send;
        data.frame = frame;
        data.offset = net::kRoomForHeaders;
        data.length = static_cast<std::uint32_t>(got);
        const auto replied = port_->reply(request, {&data, 1});
        port_->end_reply({&frame, 1});
        replied ? static_cast<void>(port_->release(request)) : refuse(request, name_of(replied.error()));
    }

    bool take_from_worker() {
        bool worked = false;
        for (umem::Descriptor answer{}; from_worker_;) {
            const auto popped = from_worker_->pop(answer);
            if (!popped) {
                faults_[std::string(name_of(popped.error()))] =
                    faults_.value(std::string(name_of(popped.error())), 0) + 1;
                if (popped.error() == umem::Fault::bad_index) break;
                continue;
            }
            if (!*popped) break;
            worked = true;
            waiting_--;
            if (answer.kind == umem::Kind::release) {
                port_->release(answer);
            } else {
                done(answer, port_->answer(answer, answer.length));
            }
        }
        return worked;
    }

    const Options& options_;
    umem::Slab& slab_;
    metrics::Fallbacks fallbacks_;
    std::unique_ptr<net::Port> port_;
    std::optional<ring::Ring> ring_;
    int file_ = -1;
    pid_t worker_ = -1;
    std::array<umem::Frame, 2> rings_{umem::kNoFrame, umem::kNoFrame};
    std::optional<umem::Producer> to_worker_;
    std::optional<umem::Consumer> from_worker_;
    std::uint64_t waiting_ = 0;
    std::array<std::uint64_t, 64> by_queue_{};
    nlohmann::ordered_json faults_ = nlohmann::ordered_json::object(), errors_ = nlohmann::ordered_json::object();
};

}  // namespace

int serve(const Options& options) {
    auto region = umem::Region::create(std::size_t{32} << 20, true);
    if (!region) {
        fmt::print(stderr, "bench_xdp: {}\n", region.error());
        return 3;
    }
    umem::Slab slab(std::move(*region));
    nlohmann::ordered_json report;
    {
        Server server(options, slab);
        if (const std::string wrong = server.open(); !wrong.empty()) {
            fmt::print(stderr, "bench_xdp: {}\n", wrong);
            return 3;
        }
        fmt::print("{}\n", server.port().describe());
        std::fflush(stdout);
        server.run();
        report = server.report();
        server.close_port();
    }
    report["leaked"] = slab.accounting().in_use;
    report["refused_releases"] = slab.accounting().refused;
    fmt::print("{}\n", report.dump());
    return slab.accounting().in_use == 0 ? 0 : 1;
}

}  // namespace chainio::bench
