#include "runtime/engine/kernel_server.h"

#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "compiler/ir/kernel_handlers.h"

namespace chainio::engine {
namespace {

constexpr std::uint32_t kMostConnections = 8192;  // whose completions the longest completion queue holds
constexpr std::uint64_t kReceive = 4096;          // room for requests that came together, when they are short
constexpr std::uint32_t kStretch = 1024;          // bytes of a result that are cheaper to name than to copy
constexpr std::uint64_t kLinger = 2'000'000'000;  // ns, for a peer to close its side once it was told
static_assert(ir::kMostKernelServices == CIO_SERVE_SERVICES && ir::kMostKernelSites == CIO_SERVE_SITES);

// The program counts while others look.
std::uint64_t seen(const std::uint64_t& counter) { return __atomic_load_n(&counter, __ATOMIC_RELAXED); }

std::uint32_t program_of(std::int32_t program) {
    return program < 0 ? CIO_LOOP_NONE : static_cast<std::uint32_t>(program);
}

std::uint64_t room_for(std::uint64_t request) { return std::max<std::uint64_t>(kReceive / request, 1) * request; }

// A BPF program must not change its processor, but the balancer of Linux 7.2 may try to move a thread that was put off
// in the middle of one, and warns of it in the kernel's log. A thread that may run on one processor only is left alone.
void stay_here() {
    const int here = sched_getcpu();
    if (here < 0) return;
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(here, &only);
    pthread_setaffinity_np(pthread_self(), sizeof only, &only);
}

}  // namespace

std::expected<std::unique_ptr<KernelServer>, std::string> KernelServer::create(std::shared_ptr<const spec::Loaded> spec,
                                                                               const std::vector<Listener>& listeners,
                                                                               const FileOf& file_of,
                                                                               const Options& options,
                                                                               metrics::Fallbacks& fallbacks) {
    if (listeners.size() > CIO_SERVE_SERVICES)
        return std::unexpected("the kernel answers at most " + std::to_string(CIO_SERVE_SERVICES) +
                               " endpoints of services");
    if (options.connections > kMostConnections)
        return std::unexpected("the kernel answers at most " + std::to_string(kMostConnections) +
                               " connections at once; ask for fewer (--connections)");
    std::unique_ptr<KernelServer> server(new KernelServer(std::move(spec), listeners, options));
    if (auto prepared = server->prepare(file_of, fallbacks); !prepared) return std::unexpected(prepared.error());
    return server;
}

std::expected<void, std::string> KernelServer::prepare(const FileOf& file_of, metrics::Fallbacks& fallbacks) {
    const ir::Module& module = spec_->module();
    control_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    told_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (control_ < 0 || told_ < 0) return std::unexpected(std::string("eventfd: ") + std::strerror(errno));
    const auto calls = ir::kernel_calls(module);
    for (const ir::CallChain* call : calls)
        for (const ir::CallFile& file : call->files)
            if (const OpenedFile* opened = file_of(file);
                opened != nullptr && std::ranges::find(files_, opened) == files_.end())
                files_.push_back(opened);
    for (const Listener& listener : listeners_)
        serving_.request_bytes =
            std::max(serving_.request_bytes, room_for(module.services[listener.service].tcp_framing.bytes));
    serving_.object = spec_->serve_object();
    serving_.reply_bytes = ir::longest_kernel_reply(module);
    serving_.registers = ir::most_kernel_registers(module);
    const auto files = static_cast<std::uint32_t>(files_.size());
    const auto first = files + 1 + static_cast<std::uint32_t>(listeners_.size());
    serving_.layout.control_slot = files;
    serving_.layout.first_slot = first;
    serving_.layout.timeout_ns = options_.timeout_ns;
    serving_.layout.linger_ns = kLinger;
    serving_.layout.zero_copy = options_.zero_copy_bytes;
    auto loop = KernelLoop::create(*spec_, options_.ranks,
                                   {.flights = options_.connections,
                                    .file_slots = first + options_.connections,
                                    .spin_us = options_.spin_us,
                                    .serving = &serving_},
                                   fallbacks);
    if (!loop) return std::unexpected(loop.error());
    loop_ = std::move(*loop);
    if (auto added = add_files(file_of); !added) return added;
    const auto services = static_cast<std::uint32_t>(listeners_.size());
    for (std::uint32_t i = 0; i < services; i++) fill_service(i, listeners_[i]);
    return {};
}

std::expected<void, std::string> KernelServer::add_files(const FileOf& file_of) {
    for (std::uint32_t i = 0; i < files_.size(); i++)
        if (auto added = loop_->add_file(i, *files_[i]); !added) return added;
    io_uring* ring = loop_->ring().get();
    const auto first = static_cast<unsigned>(serving_.layout.first_slot);
    std::vector<int> fds{control_};
    for (const Listener& listener : listeners_) fds.push_back(listener.fd);
    int result = io_uring_register_files_update(ring, static_cast<unsigned>(serving_.layout.control_slot), fds.data(),
                                                static_cast<unsigned>(fds.size()));
    if (result == static_cast<int>(fds.size()))
        result = io_uring_register_file_alloc_range(ring, first, options_.connections);
    if (result < 0)
        return std::unexpected(std::string("the kernel refuses to register sockets with the ring: ") +
                               std::strerror(-result));
    const auto calls = ir::kernel_calls(spec_->module());
    for (std::uint32_t i = 0; i < calls.size(); i++) fill_site(i, *calls[i], file_of);
    return {};
}

void KernelServer::fill_site(std::uint32_t number, const ir::CallChain& call, const FileOf& file_of) {
    const ir::Chain& chain = spec_->module().chains[call.chain];
    cio_site& site = head().sites[number];
    site.entry = program_of(chain.entry);
    site.done = program_of(chain.done);
    site.hops = chain.hops;
    site.step_base = loop_->step_base(call.chain);
    site.step_count = static_cast<std::uint32_t>(chain.steps.size());
    site.wants_result = chain.result != ir::ResultKind::none;
    const auto rank =
        chain.priority_class < 0 ? options_.ranks.size() - 1 : static_cast<std::size_t>(chain.priority_class);
    site.level = loop_->level(static_cast<std::uint16_t>(rank));
    std::vector<const OpenedFile*> opened;
    for (const ir::CallFile& file : call.files) opened.push_back(file_of(file));
    // A service whose file is not open is not served; its calls are filled in no further.
    if (std::ranges::find(opened, nullptr) != opened.end()) return;
    for (const OpenedFile* file : opened) {
        site.files[site.file_count].slot = static_cast<std::uint32_t>(std::ranges::find(files_, file) - files_.begin());
        site.files[site.file_count++].align_mask = file->offset_align - 1;
    }
    for (const ir::HeaderArg& header : chain.header_args) {
        const OpenedFile& file = *opened[header.file];
        site.header_slot[site.header_count] = header.slot;
        site.header[site.header_count++] = header.field == ir::kFileSizeField ? file.size : file.header[header.field];
    }
    std::ranges::copy(chain.initial_state, site.state);
}

void KernelServer::fill_service(std::uint32_t number, const Listener& listener) {
    const ir::Module& module = spec_->module();
    const ir::Service& service = module.services[listener.service];
    cio_service& entry = head().services[number];
    entry.on_request = program_of(service.on_request_tcp);
    entry.on_malformed = program_of(service.on_malformed);
    entry.on_failure = program_of(service.on_failure);
    entry.request_bytes = service.tcp_framing.bytes;
    entry.in_bytes = static_cast<std::uint32_t>(room_for(entry.request_bytes));
    const auto rank =
        service.priority_class < 0 ? options_.ranks.size() - 1 : static_cast<std::size_t>(service.priority_class);
    entry.level = loop_->level(static_cast<std::uint16_t>(rank));
    const auto close = std::ranges::find(module.reasons, "close");
    if (close != module.reasons.end())
        entry.close_outcome = CIO_USER + static_cast<std::uint32_t>(close - module.reasons.begin());
    entry.slot = static_cast<std::uint32_t>(serving_.layout.control_slot) + 1 + number;
    entry.accept = CIO_ACCEPT_ARM;
    // What a reply's stretch lies in is the chain's memory, which a call for another reply would write over.
    const bool others_call =
        ir::calls_chain(module, service.on_malformed) || ir::calls_chain(module, service.on_failure);
    entry.stretch_least = others_call ? 0 : kStretch;
}

KernelServer::~KernelServer() {
    end_within(-1);
    loop_.reset();
    if (control_ >= 0) close(control_);
    if (told_ >= 0) close(told_);
}

std::expected<void, std::string> KernelServer::start() {
    const auto run = [](void* self) -> void* {
        static_cast<KernelServer*>(self)->work();
        return nullptr;
    };
    const int failed = pthread_create(&thread_, nullptr, run, this);
    started_ = failed == 0;
    if (started_) return {};
    return std::unexpected(std::string("no thread can be had for services inside the kernel: ") +
                           std::strerror(failed));
}

void KernelServer::drain() {
    wants_drain_ = true;
    eventfd_write(control_, 1);
}

bool KernelServer::end_within(int milliseconds) {
    if (!started_) return true;
    wants_end_ = true;
    eventfd_write(control_, 1);
    timespec until{};
    clock_gettime(CLOCK_MONOTONIC, &until);
    const auto ns = until.tv_nsec + milliseconds % 1000 * 1'000'000L;
    until.tv_sec += milliseconds / 1000 + ns / 1'000'000'000;
    until.tv_nsec = ns % 1'000'000'000;
    started_ = (milliseconds < 0 ? pthread_join(thread_, nullptr)
                                 : pthread_clockjoin_np(thread_, nullptr, CLOCK_MONOTONIC, &until)) != 0;
    return !started_;
}

cio_serve_head& KernelServer::head() const {
    return *reinterpret_cast<cio_serve_head*>(loop_->region().base() + serving_.layout.head_offset);
}

cio_conn& KernelServer::connection(std::uint32_t index) const {
    return *reinterpret_cast<cio_conn*>(loop_->region().base() + serving_.layout.conns_offset +
                                        index * serving_.layout.conn_stride);
}

// The receives of those that wait for a request are called back, so that each ends once nothing has come of it.
void KernelServer::begin_drain() {
    cio_serve_head& head = this->head();
    if (head.draining != 0) return;
    head.draining = 1;
    for (cio_service& service : head.services) {
        if (service.accept == CIO_ACCEPT_ARM) service.accept = CIO_ACCEPT_NO;
        if (service.accept == CIO_ACCEPT_ARMED) service.accept = CIO_ACCEPT_STOP;
    }
    for (std::uint32_t i = 0; i < options_.connections; i++) {
        const cio_conn& one = connection(i);
        if (one.state == CIO_CONN_RECEIVE && one.armed != 0 && loop_->flight(i).listed == 0) loop_->make_ready(i);
    }
}

bool KernelServer::drained() const {
    return head().draining != 0 && std::ranges::all_of(head().services, [](const cio_service& service) {
               return service.open == 0 && service.accept == CIO_ACCEPT_NO;
           });
}

// One system call, for as long as nobody wants anything else of the thread; what went wrong.
std::string KernelServer::enter() {
    enters_.fetch_add(1, std::memory_order_relaxed);
    const int result = loop_->run(0);
    eventfd_t count = 0;
    eventfd_read(control_, &count);
    cio_serve_head& head = this->head();
    head.stop = 0;
    if (head.failed != 0)
        return std::string("a connection cannot be accepted: ") + std::strerror(static_cast<int>(head.failed));
    if (result >= 0 || result == -EINTR) return {};
    return std::string("io_uring_enter: ") + std::strerror(-result) +
           (result == -EFAULT ? " (the kernel engine's program is no longer attached to the ring)" : "");
}

void KernelServer::work() {
    stay_here();
    while (!wants_end_ && failure_.empty() && !drained()) {
        if (wants_drain_) begin_drain();
        failure_ = enter();
    }
    // The kernel may still write into the memory. What can be called back is, and the thread's end waits for the rest.
    io_uring_sync_cancel_reg all{};
    all.fd = -1;
    all.flags = IORING_ASYNC_CANCEL_ANY;
    all.timeout.tv_sec = all.timeout.tv_nsec = -1;
    io_uring_register_sync_cancel(loop_->ring().get(), &all);
    loop_->forget_operations();
    ended_.store(true, std::memory_order_release);
    eventfd_write(told_, 1);
}

KernelServerCounters KernelServer::counters(std::uint32_t service) const {
    KernelServerCounters out;
    for (std::size_t i = 0; i < listeners_.size(); i++) {
        if (listeners_[i].service != service) continue;
        const cio_service& from = head().services[i];
        out.accepted += seen(from.accepted);
        out.refused += seen(from.refused);
        out.open += seen(from.open);
        out.requests += seen(from.requests);
        out.answered += seen(from.answered);
        out.malformed += seen(from.malformed);
        out.failed += seen(from.failed);
        out.unanswered += seen(from.unanswered);
        out.timeouts += seen(from.timeouts);
        out.vanished += seen(from.vanished);
        out.bytes_in += seen(from.bytes_in);
        out.bytes_out += seen(from.bytes_out);
        out.partial_sends += seen(from.partial_sends);
        out.waited_sends += seen(from.waited_sends);
        out.zero_copy_sends += seen(from.zero_copy_sends);
        out.zero_copy_copied += seen(from.zero_copy_copied);
        out.zero_copy_refused += seen(from.zero_copy_refused);
    }
    return out;
}

std::uint64_t KernelServer::program_calls() const {
    return seen(reinterpret_cast<const cio_loop_head*>(loop_->region().base())->calls);
}

std::string KernelServer::describe() const {
    return loop_->describe() + "; accept, receive, handler and send inside it, up to " +
           std::to_string(options_.connections) + " connections";
}

}  // namespace chainio::engine
