// Making an engine, and its files.
#include "runtime/engine/engine.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "runtime/engine/owners.h"
#include "runtime/umem/room.h"

namespace chainio::engine {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::uint64_t kMostReads = std::uint64_t{1} << 24;
constexpr unsigned kMostOnDevice = 4096;
constexpr std::uint32_t kDefaultPriority = 4;  // of chains without a class
constexpr std::size_t kMostAutomatic = 32 * kMiB;
constexpr std::size_t kBeside = 8 * kMiB;  // for what an engine, and a program around it, take beside its region

unsigned device_depth(const EngineOptions& options) {
    return std::clamp(options.in_flight * CIO_MAX_NEXT, 16u, std::clamp(options.in_flight, 1024u, kMostOnDevice));
}

std::size_t automatic_umem(const EngineOptions& options) {
    return std::clamp(options.in_flight * std::size_t{2} * CIO_MAX_BLOCK, 2 * kMiB, kMostAutomatic);
}

// What an engine's memory is made of, and what to say where it is more than there is.
struct Wanted {
    std::size_t blocks = 0, packets = 0, kept = 0;
    std::string most = {};  // the file class that keeps most

    bool beyond(std::size_t bytes) const {
        return blocks > bytes || packets > bytes - blocks || kept > bytes - blocks - packets;
    }
    std::unexpected<std::string> refused(const std::string& of, const OptionNames& names) const {
        const std::string of_interfaces =
            packets == 0 ? "" : ", " + std::to_string(packets / kMiB) + " MiB for the packets of interfaces";
        return std::unexpected(
            std::to_string(blocks / kMiB) + " MiB of block memory (" + names.memory + ")" + of_interfaces + " and " +
            std::to_string(kept / kMiB) + " MiB for the caches of file classes" +
            (kept == 0 ? "" : ", most of it of '" + most + "',") + " are more than " + of + "; ask for less");
    }
};

std::vector<ClassRank> ranks_of(const ir::Module& module) {
    std::vector<ClassRank> ranks;
    for (const auto& entry : module.classes) ranks.push_back({entry.priority, entry.weight});
    ranks.push_back({kDefaultPriority, 1});
    return ranks;
}

Wanted wanted_of(const ir::Module& module, std::size_t blocks, const EngineOptions& options) {
    Wanted wanted{.blocks = blocks, .packets = options.packet_bytes};
    std::size_t most = 0;
    for (const auto& files : module.files) {
        if (options.kernel || !files.immutable || files.cache_levels == 0) continue;
        wanted.kept += files.cache_bytes;
        if (files.cache_bytes <= most) continue;
        most = files.cache_bytes;
        wanted.most = files.name;
    }
    return wanted;
}

// Registered memory is taken at once: where there is too little, the kernel would end others, or this process. Huge
// pages that were reserved are free for this already, and count in no cgroup. `unread`: as Engine::Memory has it.
std::expected<umem::Region, std::string> make_region(const Wanted& wanted, const EngineOptions& options,
                                                     std::string& unread) {
    const umem::Bound machine = umem::memory_of_machine();
    if (wanted.beyond(machine.bytes)) return wanted.refused(machine.of, options.names);
    const std::size_t bytes =
        (wanted.blocks + wanted.packets + wanted.kept + umem::kSlabBytes - 1) / umem::kSlabBytes * umem::kSlabBytes;
    auto region = umem::Region::create(bytes, options.huge_pages);
    if (!region || region->huge()) return region;
    // Whoever calls a chain with the memory that is had without asking does not pay for reading the limits.
    if (!options.all_memory_at_once && bytes <= kMostAutomatic) return region;
    const umem::Room room = umem::room_for_process();
    if (wanted.beyond(room.all.bytes)) return wanted.refused(room.all.of, options.names);
    const std::size_t left = room.left.bytes - std::min(room.left.bytes, kBeside + bytes / 64);
    if (!options.all_memory_at_once) return region;
    if (wanted.beyond(left))
        return wanted.refused("the " + std::to_string(left / kMiB) + " MiB that are left for it of " + room.left.of,
                              options.names);
    unread = room.unread;
    return region;
}

std::string check_options(const spec::Loaded& spec, const EngineOptions& options) {
    if (std::string wrong = wrong_options(options); !wrong.empty()) return wrong;
    for (const auto& chain : spec.module().chains) {
        if (chain.mode == ir::ChainMode::call && chain.entry < 0)
            return "chain '" + chain.name + "' has no entry program";
    }
    return {};
}

}  // namespace

std::string wrong_options(const EngineOptions& options) {
    if (options.in_flight < 1 || options.in_flight > kMostInFlight) {
        return "chains in flight must be 1 to " + std::to_string(kMostInFlight);
    }
    if (options.umem_bytes != 0 && options.umem_bytes < kLeastMemory) {
        return "the memory for blocks (" + std::string(options.names.memory) + ") must be at least " +
               std::to_string(kLeastMemory / 1024) + " KiB";
    }
    if (options.max_files < 1 || options.max_files > kMostFiles) {
        return "open files must be 1 to " + std::to_string(kMostFiles);
    }
    return {};
}

std::expected<Engine::Memory, std::string> Engine::make_memory(const spec::Loaded& spec, const EngineOptions& options) {
    if (const std::string wrong = check_options(spec, options); !wrong.empty()) return std::unexpected(wrong);
    std::size_t umem_bytes = options.umem_bytes != 0 ? options.umem_bytes : automatic_umem(options);
    // The kernel engine has blocks of its own and caches none (kernel_loop.h): huge pages are not held twice.
    if (options.kernel) umem_bytes = 0;
    umem_bytes = std::max(umem_bytes, kLeastMemory);
    std::string unread;
    auto region = make_region(wanted_of(spec.module(), umem_bytes, options), options, unread);
    if (!region) return std::unexpected(region.error());
    if (options.huge_pages && options.all_memory_at_once) region->gather();

    std::uint64_t hops = 1;
    for (const auto& chain : spec.module().chains) hops = std::max<std::uint64_t>(hops, chain.hops);
    const std::uint64_t reads = std::min(options.in_flight * hops + kMostOnDevice, kMostReads);
    const std::size_t stride =
        (std::max<std::size_t>(spec.artifact().layout.total, sizeof(cio_io)) + CIO_PAD + 63) / 64 * 64;
    Memory memory{umem::Slab(std::move(*region)),
                  LazyMemory(stride * options.in_flight * 2),
                  LazyMemory(reads * sizeof(Read)),
                  static_cast<std::uint32_t>(reads),
                  options.packet_bytes,
                  std::move(unread)};
    if (memory.io.base() == nullptr || memory.reads.base() == nullptr) {
        return std::unexpected("no memory for " + std::to_string(options.in_flight) +
                               " chains in flight; ask for fewer (" + options.names.in_flight + ")");
    }
    return memory;
}

std::expected<std::unique_ptr<Engine>, std::string> Engine::create(std::shared_ptr<const spec::Loaded> spec,
                                                                   const EngineOptions& options,
                                                                   MakeBackend make_backend, void* context) {
    auto memory = make_memory(*spec, options);
    if (!memory) return std::unexpected(memory.error());
    return create_in(std::move(spec), options, std::move(*memory), make_backend, context);
}

std::expected<std::unique_ptr<Engine>, std::string> Engine::create(std::shared_ptr<const spec::Loaded> spec,
                                                                   const EngineOptions& options, Memory memory) {
    return create_in(std::move(spec), options, std::move(memory), nullptr, nullptr);
}

std::expected<std::unique_ptr<Engine>, std::string> Engine::create_in(std::shared_ptr<const spec::Loaded> spec,
                                                                      const EngineOptions& options, Memory memory,
                                                                      MakeBackend make_backend, void* context) {
    const auto ranks = ranks_of(spec->module());
    const std::string unread = std::move(memory.unread);
    std::unique_ptr<Engine> engine(new Engine(std::move(spec), options, std::move(memory), ranks));
    if (!unread.empty()) engine->fallbacks_.note("memory-unknown", unread);
    if (options.kernel) {
        if (auto used = engine->use_kernel(ranks); !used) return std::unexpected(used.error());
        engine->backend_ = make_plain_backend(options.max_files, engine->counters_);
    } else if (make_backend != nullptr) {
        engine->backend_ = make_backend(context, engine->slab_, engine->counters_);
    } else if (options.use_ring) {
        // While engines are compared, each pays for its own system calls.
        const bool compared = options.trial && kernel_engine_obstacle().empty();
        engine->backend_ = make_ring_backend({.depth = device_depth(options),
                                              .file_slots = options.max_files,
                                              .shared = compared ? nullptr : options.ring,
                                              .spin_us = options.spin_us},
                                             engine->slab_, engine->counters_, engine->fallbacks_);
    } else {
        engine->backend_ = make_plain_backend(options.max_files, engine->counters_);
    }
    engine->done_.resize(std::max(1u, engine->backend_->capacity()));
    if (options.trial && !options.kernel) engine->choose(ranks);
    return engine;
}

Engine::Engine(std::shared_ptr<const spec::Loaded> spec, const EngineOptions& options, Memory memory,
               const std::vector<ClassRank>& ranks)
    : spec_(std::move(spec)),
      module_(spec_->module()),
      options_(options),
      slab_(std::move(memory.slab)),
      packet_bytes_(memory.packet_bytes),
      files_(options.max_files),
      io_memory_(std::move(memory.io)),
      read_memory_(std::move(memory.reads)),
      flights_(std::size_t{options.in_flight} * 2),
      reads_(reinterpret_cast<Read*>(read_memory_.base())),
      read_limit_(memory.read_limit),
      waiting_(ranks, ReadLink{reads_}),
      again_(ranks, ReadLink{reads_}),
      ready_(ranks, FlightLink{flights_.data()}),
      empty_block_(8) {
    const ir::IoLayout& layout = spec_->artifact().layout;
    io_stride_ =
        static_cast<std::uint32_t>((std::max<std::size_t>(layout.total, sizeof(cio_io)) + CIO_PAD + 63) / 64 * 64);
    for (std::uint32_t i = 0; i < flights_.size(); i++) {
        flights_[i].io = reinterpret_cast<cio_io*>(io_memory_.base() + std::size_t{i} * io_stride_);
        append(free_flights_, i);
    }
    for (const auto& chain : module_.chains) {
        std::uint32_t files = 0;
        for (const auto& param : chain.params) files += param.kind == ir::Param::Kind::file;
        files_per_flight_ = std::max(files_per_flight_, files);
        const auto classless = static_cast<std::uint16_t>(module_.classes.size());
        rank_of_chain_.push_back(chain.priority_class < 0 ? classless
                                                          : static_cast<std::uint16_t>(chain.priority_class));
        chain_counters_.emplace_back();
        chain_counters_.back().outcomes.resize(CIO_USER + module_.reasons.size());
    }
    flight_files_.resize(flights_.size() * files_per_flight_);
    for (std::uint32_t i = 0; i < module_.files.size(); i++) {
        const auto& files = module_.files[i];
        const bool cached = files.immutable && files.cache_levels != 0 && files.cache_bytes != 0;
        caches_.push_back(cached ? std::make_unique<BlockCache>(slab_, kCacheOwner + i,
                                                                CacheLimits{.bytes = files.cache_bytes}, counters_)
                                 : nullptr);
    }
}

Engine::~Engine() {
    // The kernel may still write into frames; the memory stays until it has finished, and for good where it cannot be
    // waited for, as in a thread that is not the ring's. In a child made by fork this waits for nothing: the ring
    // refuses it, and the memory stays with the parent.
    while (on_device_ > 0 && enter(on_device_)) {}
    if (on_device_ > 0 && backend_->is_own()) slab_.leave_mapped();
    for (std::uint32_t i = 0; i < files_.size(); i++) {
        if (files_[i].used || files_[i].orphans != 0) let_go(i);
    }
}

std::string Engine::describe() const {
    const std::string why = choice_ ? "; " + choice() : "";
    if (inside_) return kernel_->describe() + why;
    std::string text = "user engine: ";
    text += spec_->native() ? "native steps" : "interpreted steps (" + spec_->interpreter_reason() + ")";
    text += ", " + backend_->describe() + ", " + std::to_string(slab_.region().size() >> 10) + " KiB of block memory";
    return text + (slab_.region().in_huge_pages() ? " in huge pages" : "") + why;
}

std::expected<FileHandle, FileError> Engine::open_file(std::uint32_t file_class, const std::string& path,
                                                       OpenMode mode) {
    if (file_class >= module_.files.size()) return std::unexpected(FileError{EINVAL, "there is no such file class"});
    auto opened = open_class_file(*spec_, file_class, path, mode, fallbacks_);
    if (!opened) return std::unexpected(opened.error());
    const int fd = opened->fd;
    auto handle = add_file(std::move(*opened));
    if (!handle && fd >= 0) close(fd);
    return handle;
}

std::expected<FileHandle, FileError> Engine::add_file(OpenedFile opened) {
    const auto fail = [&](int error, const std::string& why) {
        return std::unexpected(FileError{error, "file '" + opened.path + "': " + why});
    };
    if (!std::has_single_bit(opened.offset_align) || !std::has_single_bit(opened.memory_align)) {
        return fail(ENOTSUP, "its file system asks for an alignment that is not a power of two");
    }
    std::uint32_t slot = free_slot();
    while (slot == files_.size() && await_orphans()) slot = free_slot();
    if (slot == files_.size())
        return fail(EMFILE, "all " + std::to_string(files_.size()) +
                                " file slots are in use (max_files); close one, or open the artifact with more");
    if (!backend_->add_file(slot, opened.fd)) return fail(ENOTSUP, "the I/O back end does not take it");
    if (kernel_) {
        auto added = kernel_->add_file(slot, opened);
        if (!added && !choice_) return fail(ENOTSUP, added.error());
        if (!added) give_up("file '" + opened.path + "': " + added.error());
    }
    File& file = files_[slot];
    const ir::FileClass& declared = module_.files[opened.file_class];
    const std::uint32_t generation = file.generation + 1;
    file = {};
    file.generation = generation & 0xffff;
    file.used = true;
    file.id = next_file_id_++;
    auto& cache = caches_[opened.file_class];
    file.cache_levels = declared.cache_levels;
    if (!declared.immutable && options_.passed_bytes != 0) {
        if (!cache)
            cache = std::make_unique<BlockCache>(
                slab_, kCacheOwner + opened.file_class,
                CacheLimits{.bytes = options_.passed_bytes, .good_for_ns = options_.passed_ns}, counters_);
        file.keep_passed = true;
        file.cache_levels = UINT32_MAX;
    }
    file.cache = cache.get();
    file.try_page_cache = !opened.direct;
    file.opened = std::move(opened);
    return file.generation << 16 | slot;
}

const OpenedFile* Engine::file(FileHandle handle) const {
    const std::uint32_t slot = handle & 0xffff;
    if (slot >= files_.size() || !files_[slot].used || files_[slot].generation != handle >> 16) return nullptr;
    return &files_[slot].opened;
}

std::expected<void, std::string> Engine::close_file(FileHandle handle) {
    if (file(handle) == nullptr) return std::unexpected(std::string("no such file is open"));
    const std::uint32_t slot = handle & 0xffff;
    File& entry = files_[slot];
    if (entry.chains != 0) {
        return std::unexpected("'" + entry.opened.path + "' is in use by " + std::to_string(entry.chains) +
                               " chains in flight; reap them first");
    }
    if (entry.cache != nullptr) entry.cache->drop_file(entry.id);
    if (kernel_) kernel_->remove_file(slot);
    entry.used = false;
    if (entry.orphans == 0) let_go(slot);
    return {};
}

std::uint32_t Engine::free_slot() const {
    std::uint32_t slot = 0;
    while (slot < files_.size() && (files_[slot].used || files_[slot].orphans != 0)) slot++;
    return slot;
}

// Waits for reads while closed files have some under way. False: there are none, or this thread cannot wait for them.
bool Engine::await_orphans() {
    const auto closing = [](const File& file) { return !file.used && file.orphans != 0; };
    return std::ranges::any_of(files_, closing) && enter(1).has_value();
}

// A read may have gone to the back end by the number of the descriptor, and not to the kernel yet: before all have
// arrived, that number must not become another file's.
void Engine::let_go(std::uint32_t slot) {
    backend_->remove_file(slot);
    if (files_[slot].opened.fd >= 0) close(files_[slot].opened.fd);
}

std::vector<std::string> Engine::leaks() {
    release_held();
    return slab_.held({kCacheOwner, kHandedOut});
}

}  // namespace chainio::engine
