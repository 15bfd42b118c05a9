#include "runtime/probe/session.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "compiler/ir/probe_layout.h"
#include "runtime/probe/privileges.h"
#include "runtime/probe/sites.h"

namespace chainio::probe {
namespace {

// A class of its own, as libbpf's handles are C.
template <class T, void (*Close)(T*)>
struct Closer {
    void operator()(T* handle) const { Close(handle); }
};
void close_link(bpf_link* link) { bpf_link__destroy(link); }
using Object = std::unique_ptr<bpf_object, Closer<bpf_object, bpf_object__close>>;
// BPF_TRACE_UPROBE_MULTI, which older headers do not know.
constexpr auto kUprobeMulti = static_cast<bpf_attach_type>(48);

using Link = std::unique_ptr<bpf_link, Closer<bpf_link, close_link>>;
using RingBuffer = std::unique_ptr<ring_buffer, Closer<ring_buffer, ring_buffer__free>>;

// libbpf's own warnings would stand between the program's lines; the last of them is the reason that is reported.
class LibbpfWords {
  public:
    LibbpfWords() {
        words().clear();
        before_ = libbpf_set_print([](libbpf_print_level level, const char* format, va_list arguments) {
            std::array<char, 512> line{};
            if (level != LIBBPF_WARN) return 0;
            vsnprintf(line.data(), line.size(), format, arguments);
            std::string_view text = line.data();
            if (!text.empty() && text.find("unrecognized") == text.npos) words() = text.substr(0, text.find('\n'));
            return 0;
        });
    }
    LibbpfWords(const LibbpfWords&) = delete;
    LibbpfWords& operator=(const LibbpfWords&) = delete;
    ~LibbpfWords() { libbpf_set_print(before_); }
    static std::string& words() {
        static std::string last;
        return last;
    }

  private:
    libbpf_print_fn_t before_ = nullptr;
};

std::string reason(std::string_view what, int error) {
    const std::string& said = LibbpfWords::words();
    return fmt::format("{}: {}{}", what, std::strerror(error < 0 ? -error : error),
                       said.empty() ? "" : " (" + said + ")");
}

struct Layout {
    ir::ProbeLayout record;
    std::vector<ir::ProbeArg> args;
};

class Attached final : public Session {
  public:
    explicit Attached(const ir::Module& module) {
        for (const ir::Probe& probe : module.probes) layouts_.push_back({ir::layout_of(probe), probe.args});
        std::size_t most = 0;
        for (const Layout& layout : layouts_)
            most = std::max<std::size_t>(most, layout.record.bytes + 8 * layout.args.size());
        arguments_.resize(most);
    }
    ~Attached() override {
        if (control_ != nullptr) munmap(control_, control_bytes());
    }

    void refuse(std::size_t probe, std::string why) {
        refused_.push_back({static_cast<std::uint16_t>(probe), std::move(why)});
    }
    std::expected<void, std::string> load(std::span<const std::uint8_t> artifact,
                                          const std::vector<std::vector<Site>>& sites);
    std::expected<void, std::string> follow_processes();
    std::expected<void, std::string> join();
    std::expected<void, std::string> attach_all(const ir::Module& module, const std::vector<std::vector<Site>>& sites);

    unsigned poll(unsigned most, const std::function<void(const Event&)>& take) override;
    bool sleep() override;
    int fd() const override { return ring_ ? ring_buffer__epoll_fd(ring_.get()) : -1; }
    void want(std::uint16_t probe, bool wanted) override {
        if (control_ != nullptr && probe < CIO_MAX_PROBES)
            __atomic_store_n(&control_->off[probe], wanted ? 0 : 1, __ATOMIC_RELAXED);
    }
    const std::vector<AttachedSite>& attached() const override { return attached_; }
    const std::vector<RefusedProbe>& refused() const override { return refused_; }
    Counts counts(std::uint16_t probe) const override {
        if (control_ == nullptr || probe >= CIO_MAX_PROBES) return {};
        const cio_probe_counts& now = control_->counts[probe];
        return {__atomic_load_n(&now.taken, __ATOMIC_RELAXED), __atomic_load_n(&now.lost, __ATOMIC_RELAXED),
                __atomic_load_n(&now.unreadable, __ATOMIC_RELAXED)};
    }
    std::uint64_t untracked() const override {
        return control_ == nullptr ? 0 : __atomic_load_n(&control_->untracked, __ATOMIC_RELAXED);
    }
    void count_this_process(bool counts) override;

  private:
    static std::size_t control_bytes() {
        const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
        return (sizeof(cio_probe_control) + page - 1) / page * page;
    }
    std::expected<void, std::string> open_maps();
    std::expected<void, std::string> attach_site(std::size_t probe, const Site& site, const std::string& what);
    bpf_program* program(const std::string& name) const {
        return bpf_object__find_program_by_name(object_.get(), name.c_str());
    }
    int tree() const { return bpf_object__find_map_fd_by_name(object_.get(), "cio_probe_tree_map"); }
    int take_record(const void* data, std::size_t size);

    std::vector<Layout> layouts_;
    Object object_;
    RingBuffer ring_;
    std::vector<Link> links_;
    cio_probe_control* control_ = nullptr;
    std::uint32_t next_site_ = 0;
    std::optional<std::uint32_t> own_;  // this process, by its id in the first namespace
    std::vector<AttachedSite> attached_;
    std::vector<RefusedProbe> refused_;
    std::vector<std::uint8_t> arguments_;
    const std::function<void(const Event&)>* take_ = nullptr;
    unsigned taken_ = 0, most_ = 0;
};

std::expected<void, std::string> Attached::load(std::span<const std::uint8_t> artifact,
                                                const std::vector<std::vector<Site>>& sites) {
    bpf_object_open_opts options{};
    options.sz = sizeof(options);
    options.object_name = "chainio_probe";
    object_.reset(bpf_object__open_mem(artifact.data(), artifact.size(), &options));
    if (!object_) return std::unexpected(reason("the artifact's BPF programs cannot be opened", errno));
    bpf_program* each = nullptr;
    bpf_object__for_each_program(each, object_.get()) {
        const std::string_view name = bpf_program__name(each);
        bool wanted = name == "cio_probe_join" || name == "cio_probe_fork" || name == "cio_probe_exit";
        for (std::size_t i = 0; i < sites.size(); i++)
            wanted |= !sites[i].empty() && name == fmt::format("cio_probe_{}", i);
        bpf_program__set_autoload(each, wanted);
        // Kernels before 6.6, which know no such links, take no notice.
        if (bpf_program__type(each) == BPF_PROG_TYPE_KPROBE) bpf_program__set_expected_attach_type(each, kUprobeMulti);
    }
    for (const char* unused : {"cio_io_map", "cio_block_map"})
        if (bpf_map* map = bpf_object__find_map_by_name(object_.get(), unused)) bpf_map__set_autocreate(map, false);
    if (const int error = bpf_object__load(object_.get()); error != 0)
        return std::unexpected(reason("the kernel refuses the artifact's probe programs", error));
    return open_maps();
}

std::expected<void, std::string> Attached::open_maps() {
    const int control = bpf_object__find_map_fd_by_name(object_.get(), "cio_probe_control_map");
    const int ring = bpf_object__find_map_fd_by_name(object_.get(), "cio_probe_ring");
    if (control < 0 || ring < 0) return std::unexpected("the artifact has no maps for probes; compile its spec again");
    void* mapped = mmap(nullptr, control_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, control, 0);
    if (mapped == MAP_FAILED) return std::unexpected(reason("the probes' controls cannot be mapped", errno));
    control_ = static_cast<cio_probe_control*>(mapped);
    ring_.reset(ring_buffer__new(
        ring,
        [](void* self, void* data, std::size_t size) { return static_cast<Attached*>(self)->take_record(data, size); },
        this, nullptr));
    if (!ring_) return std::unexpected(reason("the probes' ring cannot be mapped", errno));
    struct stat space{};
    if (stat("/proc/self/ns/pid", &space) == 0) {
        control_->device = space.st_dev;
        control_->inode = space.st_ino;
    }
    std::ranges::fill(control_->syscalls, CIO_NO_SYSCALL);
    return {};
}

// What processes of the run start will count as the run.
std::expected<void, std::string> Attached::follow_processes() {
    for (const char* name : {"cio_probe_fork", "cio_probe_exit"}) {
        bpf_program* follower = program(name);
        Link link(follower != nullptr ? bpf_program__attach(follower) : nullptr);
        if (!link) return std::unexpected(reason("the kernel's process events cannot be followed", errno));
        links_.push_back(std::move(link));
    }
    return {};
}

// From here on this process and whatever descends from it counts as the run.
std::expected<void, std::string> Attached::join() {
    bpf_program* join = program("cio_probe_join");
    bpf_test_run_opts options{};
    options.sz = sizeof(options);
    const int error = join != nullptr ? bpf_prog_test_run_opts(bpf_program__fd(join), &options) : -ENOENT;
    if (error != 0 || options.retval != 0) return std::unexpected(reason("the run's processes cannot be noted", error));
    // It is alone there, by an id that no process in a namespace can find out otherwise.
    std::uint32_t own = 0;
    if (bpf_map_get_next_key(tree(), nullptr, &own) == 0) own_ = own;
    return {};
}

void Attached::count_this_process(bool counts) {
    constexpr std::uint32_t kOne = 1;
    if (!own_) return;
    if (counts)
        (void)bpf_map_update_elem(tree(), &*own_, &kOne, BPF_ANY);
    else
        (void)bpf_map_delete_elem(tree(), &*own_);
}

// By a link of its own kind, which takes CAP_BPF and CAP_PERFMON; before Linux 6.6 by a perf event, which takes
// CAP_SYS_ADMIN too.
Link attach_uprobe(const bpf_program* handler, const Site& site, std::uint64_t cookie) {
    const unsigned long offset = site.offset, counter = site.semaphore;
    bpf_uprobe_multi_opts options{};
    options.sz = sizeof(options);
    options.offsets = &offset;
    options.ref_ctr_offsets = counter != 0 ? &counter : nullptr;
    const __u64 cookies = cookie;
    options.cookies = &cookies;
    options.cnt = 1;
    Link link(bpf_program__attach_uprobe_multi(handler, -1, site.file.c_str(), nullptr, &options));
    if (link || errno != EINVAL) return link;
    bpf_uprobe_opts older{};
    older.sz = sizeof(older);
    older.ref_ctr_offset = site.semaphore;
    older.bpf_cookie = cookie;
    older.attach_mode = PROBE_ATTACH_MODE_LINK;  // the oldest way leaves something behind when the process is killed
    return Link(bpf_program__attach_uprobe_opts(handler, -1, site.file.c_str(), site.offset, &older));
}

std::expected<void, std::string> Attached::attach_site(std::size_t probe, const Site& site, const std::string& what) {
    bpf_program* handler = program(fmt::format("cio_probe_{}", probe));
    if (handler == nullptr) return std::unexpected("the artifact has no program for it; compile its spec again");
    Link link;
    if (site.cost == Cost::system_call) {
        control_->syscalls[probe] = static_cast<std::uint32_t>(site.offset);
        link.reset(bpf_program__attach(handler));
    } else {
        const std::uint32_t row = next_site_;
        const int sites = bpf_object__find_map_fd_by_name(object_.get(), "cio_probe_site_map");
        if (row >= CIO_PROBE_SITES)
            return std::unexpected(fmt::format("the spec's probes have more than {} places", CIO_PROBE_SITES));
        if (const int error = bpf_map_update_elem(sites, &row, &site.arguments, BPF_ANY); error != 0)
            return std::unexpected(reason("its arguments cannot be described to the kernel", error));
        next_site_++;
        link = attach_uprobe(handler, site, row);
    }
    if (!link) return std::unexpected(reason(fmt::format("the kernel does not attach it to {}", what), errno));
    links_.push_back(std::move(link));
    return {};
}

std::expected<void, std::string> Attached::attach_all(const ir::Module& module,
                                                      const std::vector<std::vector<Site>>& sites) {
    for (std::size_t i = 0; i < sites.size(); i++) {
        for (const Site& site : sites[i]) {
            const bool call = site.cost == Cost::system_call;
            const std::string what = call ? "system call " + module.probes[i].site : site.file;
            if (auto done = attach_site(i, site, what); !done) {
                refuse(i, done.error());
                break;
            }
            const std::string where = call ? what : fmt::format("{}+{:#x}", what, site.offset);
            attached_.push_back({static_cast<std::uint16_t>(i), where, std::string(describe(site.cost)),
                                 site.cost == Cost::stepped || call});
        }
    }
    return {};
}

int Attached::take_record(const void* data, std::size_t size) {
    const auto* record = static_cast<const cio_probe_record*>(data);
    if (size < sizeof(cio_probe_record) || record->probe >= layouts_.size()) return 0;
    const Layout& layout = layouts_[record->probe];
    if (size < layout.record.bytes) return 0;
    std::size_t used = 0;
    const auto put_word = [&](std::uint64_t word) {
        std::memcpy(arguments_.data() + used, &word, sizeof(word));
        used += sizeof(word);
    };
    for (std::size_t k = 0; k < layout.args.size(); k++) {
        const std::uint64_t length = std::min<std::uint64_t>(record->values[k], layout.args[k].max);
        put_word(layout.args[k].cstr ? length : record->values[k]);
        if (!layout.args[k].cstr) continue;
        const std::size_t padded = (length + 7) / 8 * 8;
        std::memset(arguments_.data() + used, 0, padded);
        std::memcpy(arguments_.data() + used, static_cast<const std::uint8_t*>(data) + layout.record.text_at[k],
                    length);
        used += padded;
    }
    (*take_)({static_cast<std::uint16_t>(record->probe), record->process, std::span(arguments_).first(used)});
    // A negative answer makes libbpf stop behind this record.
    return ++taken_ >= most_ ? -ECANCELED : 0;
}

unsigned Attached::poll(unsigned most, const std::function<void(const Event&)>& take) {
    if (!ring_ || most == 0) return 0;
    take_ = &take;
    taken_ = 0;
    most_ = most;
    ring_buffer__consume(ring_.get());
    take_ = nullptr;
    return taken_;
}

bool Attached::sleep() {
    if (!ring_) return true;
    __atomic_store_n(&control_->asleep, 1, __ATOMIC_SEQ_CST);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    // A record that is being written counts: its writer may have looked before the store.
    if (ring__avail_data_size(ring_buffer__ring(ring_.get(), 0)) == 0) return true;
    __atomic_store_n(&control_->asleep, 0, __ATOMIC_RELAXED);
    return false;
}

}  // namespace

std::unique_ptr<Session> Session::attach(std::span<const std::uint8_t> artifact, const ir::Module& module,
                                         const std::string& program) {
    auto session = std::make_unique<Attached>(module);
    std::vector<bool> wanted(module.probes.size());
    for (const ir::Chain& chain : module.chains)
        if (chain.mode == ir::ChainMode::on_probe) wanted[chain.source] = true;
    std::vector<std::vector<Site>> sites(module.probes.size());
    const auto refuse_rest = [&](const std::string& why) {
        for (std::size_t i = 0; i < sites.size(); i++)
            if (!sites[i].empty()) session->refuse(i, why);
    };
    if (std::ranges::find(wanted, true) == wanted.end()) return session;
    const auto libraries = Libraries::of(program);
    for (std::size_t i = 0; i < wanted.size(); i++) {
        if (!wanted[i]) continue;
        auto found = libraries ? find_sites(module.probes[i], *libraries) : std::unexpected(libraries.error());
        if (found)
            sites[i] = std::move(*found);
        else
            session->refuse(i, found.error());
    }
    if (std::ranges::all_of(sites, [](const auto& list) { return list.empty(); })) return session;
    if (const std::string missing = missing_privileges(); !missing.empty()) {
        refuse_rest(missing);
        return session;
    }
    LibbpfWords quiet;
    auto done = session->load(artifact, sites);
    if (done) done = session->follow_processes();
    if (done) done = session->attach_all(module, sites);
    if (done) done = session->join();  // last: what attaching calls is not the program's
    if (!done) refuse_rest(done.error());
    return session;
}

}  // namespace chainio::probe
