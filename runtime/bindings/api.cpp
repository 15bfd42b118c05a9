// The C functions over the engine. Nothing is thrown across them.
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "compiler/diag/diag.h"
#include "runtime/bindings/include/chainio.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/wrong_call.h"
#include "runtime/spec/outcomes.h"

using chainio::engine::Argument;
using chainio::engine::Completion;
using chainio::engine::Engine;
using chainio::engine::EngineOptions;
using chainio::engine::FileHandle;
using chainio::engine::SubmitError;
using chainio::engine::wrong_call;
namespace ir = chainio::ir;
namespace spec = chainio::spec;

struct chainio_handle {
    std::unique_ptr<Engine> engine;
    mutable std::string error = "no error";  // also of what only looks
    std::string text;                        // what the last function that returns a string returned
    std::vector<Argument> args;
    std::vector<Completion> done;
    std::uint32_t forks = 0;   // how many there had been when it was opened
    std::uint32_t number = 0;  // of it among the handles of the process, in the numbers of its files
};

namespace {

thread_local std::string open_error = "no error";

// How many forks this process is behind the one that loaded the library.
std::atomic<std::uint32_t> forks = 0;

// A child has a copy of the engine, yet its frames and its ring are those of the parent.
bool of_parent(const chainio_handle* handle) { return handle->forks != forks; }

int fail(const chainio_handle* handle, int error, std::string message) {
    handle->error = std::move(message);
    return -error;
}

int fail_open(int error, std::string message) {
    open_error = std::move(message);
    return -error;
}

// The system's own number, or that of a content which is not what was to be read.
int number_of(const auto& error) { return error.system != 0 ? error.system : EBADMSG; }

// Runs `body`, turning what the standard library throws into a negative errno.
template <typename Body>
int guarded(std::string& error, Body body) {
    try {
        return body();
    } catch (const std::bad_alloc&) {
        error = "out of memory";
        return -ENOMEM;
    } catch (const std::exception& exception) {
        error = exception.what();
        return -EIO;
    }
}

// The same with a handle. Who has none is told by chainio_error(NULL), as of an open.
template <typename Body>
int with(const chainio_handle* handle, Body body) {
    if (handle == nullptr) return guarded(open_error, [] { return fail_open(EINVAL, "handle must not be NULL"); });
    return guarded(handle->error, body);
}

// The same for what runs chains or opens files.
template <typename Body>
int used(const chainio_handle* handle, Body body) {
    return with(handle, [&] {
        if (of_parent(handle))
            return fail(handle, EPERM,
                        "the handle was opened by the parent process, before fork(); open one in this process");
        return body();
    });
}

// Copies as much of `value` as the caller's struct holds, so that programs built with an older header keep working.
template <typename T>
int hand_out(const chainio_handle* handle, T value, T* out) {
    if (out == nullptr) return fail(handle, EINVAL, "the struct to fill must not be NULL");
    if (out->size < sizeof(std::size_t))
        return fail(handle, EINVAL, "the size of the struct to fill must be set to its sizeof");
    const std::size_t size = out->size;
    value.size = size;
    std::memcpy(out, &value, std::min(size, sizeof(T)));
    return 0;
}

int make(std::expected<std::shared_ptr<const spec::Loaded>, spec::OpenError> loaded, const EngineOptions& options,
         chainio_handle** out) {
    if (!loaded) return fail_open(number_of(loaded.error()), loaded.error().message);
    static const int counts = pthread_atfork(nullptr, nullptr, [] { forks++; });
    if (counts != 0) return fail_open(ENOMEM, "out of memory");
    auto engine = Engine::create(std::move(*loaded), options);
    if (!engine) return fail_open(ENOMEM, engine.error());
    auto handle = std::make_unique<chainio_handle>();
    handle->engine = std::move(*engine);
    handle->args.reserve(CIO_MAX_ARGS);
    handle->done.resize(options.in_flight);
    handle->forks = forks;
    static std::atomic<std::uint32_t> handles = 0;
    handle->number = ++handles;
    *out = handle.release();
    return 0;
}

std::string listed(const std::vector<std::string>& names) {
    std::string all;
    for (const std::string& name : names) all += (all.empty() ? "'" : ", '") + name + "'";
    return all;
}

struct Options {
    EngineOptions engine;
    spec::OpenOptions open;
};

constexpr chainio::engine::OptionNames kNames{.memory = "options->memory",
                                              .in_flight = "options->in_flight",
                                              .user_engine = "the user engine (no CHAINIO_KERNEL_ENGINE)"};

constexpr std::uint32_t kMostSpin = 1'000'000;  // microseconds

// The engine would refuse these as well, and chainio_open() takes what it says for a want of memory.
std::string wrong_size(const chainio_options& given) {
    namespace engine = chainio::engine;
    if (given.in_flight > engine::kMostInFlight)
        return "options->in_flight is at most " + std::to_string(engine::kMostInFlight);
    if (given.max_files > engine::kMostFiles)
        return "options->max_files is at most " + std::to_string(engine::kMostFiles);
    if (given.memory != 0 && given.memory < engine::kLeastMemory)
        return "options->memory is at least " + std::to_string(engine::kLeastMemory) +
               " bytes, or 0: as in_flight asks";
    return {};
}

int read_options(const chainio_options* given, Options& options) {
    chainio_options known{};
    if (given != nullptr) {
        if (given->size < sizeof(std::size_t) || given->size > 4096) {
            return fail_open(EINVAL, "options->size must be sizeof(struct chainio_options)");
        }
        std::memcpy(&known, given, std::min(given->size, sizeof known));
    }
    constexpr std::uint32_t kFlags =
        CHAINIO_INTERPRET | CHAINIO_NO_RING | CHAINIO_NO_HUGE_PAGES | CHAINIO_KERNEL_ENGINE | CHAINIO_AUTO_ENGINE;
    if ((known.flags & ~kFlags) != 0)
        return fail_open(EINVAL, "options->flags has a flag that this version does not know");
    if (std::string wrong = wrong_size(known); !wrong.empty()) return fail_open(EINVAL, std::move(wrong));
    if (known.in_flight != 0) options.engine.in_flight = known.in_flight;
    if (known.max_files != 0) options.engine.max_files = known.max_files;
    options.engine.umem_bytes = known.memory;
    options.engine.names = kNames;
    options.engine.use_ring = (known.flags & CHAINIO_NO_RING) == 0;
    options.engine.kernel = (known.flags & CHAINIO_KERNEL_ENGINE) != 0;
    if (options.engine.kernel && (known.flags & (CHAINIO_INTERPRET | CHAINIO_NO_RING)) != 0)
        return fail_open(EINVAL, "CHAINIO_KERNEL_ENGINE goes neither with CHAINIO_INTERPRET nor with CHAINIO_NO_RING");
    constexpr std::uint32_t kNotAuto = CHAINIO_INTERPRET | CHAINIO_NO_RING | CHAINIO_KERNEL_ENGINE;
    if ((known.flags & CHAINIO_AUTO_ENGINE) != 0) {
        if ((known.flags & kNotAuto) != 0)
            return fail_open(EINVAL,
                             "CHAINIO_AUTO_ENGINE goes with none of CHAINIO_INTERPRET, CHAINIO_NO_RING and "
                             "CHAINIO_KERNEL_ENGINE");
        options.engine.trial.emplace();
    }
    if (known.spin_us != 0 && !options.engine.use_ring)
        return fail_open(EINVAL, "options->spin_us goes not with CHAINIO_NO_RING: a pread sleeps at once");
    if (known.spin_us > kMostSpin) return fail_open(EINVAL, "options->spin_us is at most 1000000");
    options.engine.spin_us = known.spin_us;
    options.engine.huge_pages = (known.flags & CHAINIO_NO_HUGE_PAGES) == 0;
    options.open.use_native = (known.flags & CHAINIO_INTERPRET) == 0;
    return 0;
}

void convert(const Completion& from, const ir::Chain& chain, chainio_completion& to) {
    to = {};
    to.user_data = from.user_data;
    to.chain = from.chain;
    to.outcome = from.outcome;
    to.kind = chain.result == ir::ResultKind::scalar ? CHAINIO_SCALAR : CHAINIO_BYTES;
    to.value = from.scalar;
    to.bytes = from.bytes.data();
    to.length = static_cast<std::uint32_t>(from.bytes.size());
    to.ns = from.ns;
    to.hops = from.hops;
}

constexpr unsigned kHandleShift = 32;  // of its number in those of its files
// Each handle counts its files from the same number on, and one of another handle must not become one of its own.
bool is_file_of(const chainio_handle* handle, std::uint64_t number) { return number >> kHandleShift == handle->number; }

// What is not the handle's becomes a number that no file has.
FileHandle file_of(const chainio_handle* handle, std::uint64_t number) {
    return is_file_of(handle, number) ? static_cast<FileHandle>(number) : UINT32_MAX;
}

// The chain of a call that failed: in flight any longer, it would be in the way of every other call.
void drop_chain(chainio_handle* handle) {
    handle->engine->cancel(0);
    static_cast<void>(handle->engine->reap(std::span(handle->done).first(1), 1));
}

int number_of(SubmitError::Kind kind) {
    switch (kind) {
        case SubmitError::Kind::full: return EAGAIN;
        case SubmitError::Kind::bad_chain: return ENOENT;
        case SubmitError::Kind::bad_argument: break;
    }
    return EINVAL;
}

const ir::Chain* chain_of(const chainio_handle* handle, std::uint32_t chain) {
    if (handle == nullptr) return nullptr;
    const auto& chains = handle->engine->spec().module().chains;
    return chain < chains.size() ? &chains[chain] : nullptr;
}

}  // namespace

extern "C" {

const char* chainio_version(void) { return CHAINIO_VERSION; }

int chainio_open(const char* artifact, const chainio_options* given, chainio_handle** out) {
    if (out != nullptr) *out = nullptr;
    return guarded(open_error, [&] {
        if (artifact == nullptr) return fail_open(EINVAL, "artifact must not be NULL");
        if (out == nullptr) return fail_open(EINVAL, "out must not be NULL");
        Options options;
        if (const int wrong = read_options(given, options); wrong != 0) return wrong;
        return make(spec::Loaded::open(artifact, options.open), options.engine, out);
    });
}

int chainio_open_bytes(const void* artifact, size_t length, const chainio_options* given, chainio_handle** out) {
    if (out != nullptr) *out = nullptr;
    return guarded(open_error, [&] {
        if (artifact == nullptr) return fail_open(EINVAL, "artifact must not be NULL");
        if (out == nullptr) return fail_open(EINVAL, "out must not be NULL");
        Options options;
        if (const int wrong = read_options(given, options); wrong != 0) return wrong;
        const std::span bytes(static_cast<const std::uint8_t*>(artifact), length);
        return make(spec::Loaded::from_bytes(bytes, "artifact in memory", options.open), options.engine, out);
    });
}

void chainio_close(chainio_handle* handle) { delete handle; }

const char* chainio_error(const chainio_handle* handle) {
    return handle == nullptr ? open_error.c_str() : handle->error.c_str();
}

const char* chainio_describe(chainio_handle* handle) {
    const int result = with(handle, [&] {
        handle->text = handle->engine->describe();
        return 0;
    });
    return result == 0 ? handle->text.c_str() : "";
}

int chainio_file_open(chainio_handle* handle, const char* file_class, const char* path, uint32_t flags,
                      uint64_t* file) {
    return used(handle, [&] {
        if (path == nullptr) return fail(handle, EINVAL, "path must not be NULL");
        if (file == nullptr) return fail(handle, EINVAL, "file must not be NULL");
        if ((flags & ~(CHAINIO_FILE_DIRECT | CHAINIO_FILE_BUFFERED)) != 0 || flags == 3) {
            return fail(handle, EINVAL, "flags must be 0, CHAINIO_FILE_DIRECT or CHAINIO_FILE_BUFFERED");
        }
        const auto& files = handle->engine->spec().module().files;
        std::optional<std::uint32_t> index;
        if (file_class != nullptr)
            index = handle->engine->spec().find_file_class(file_class);
        else if (files.size() == 1)
            index = 0;
        if (!index) {
            std::vector<std::string> names;
            for (const auto& entry : files) names.push_back(entry.name);
            if (file_class == nullptr)
                return fail(handle, EINVAL,
                            files.empty()
                                ? "the artifact has no file classes"
                                : "the artifact has several file classes; give file_class, one of " + listed(names));
            const std::string name = file_class;
            const auto near = chainio::diag::nearest(name, names);
            return fail(handle, EINVAL,
                        "there is no file class '" + name + "'" + (near ? "; did you mean '" + *near + "'?" : ""));
        }
        const auto mode = (flags & CHAINIO_FILE_DIRECT) != 0     ? chainio::engine::OpenMode::direct
                          : (flags & CHAINIO_FILE_BUFFERED) != 0 ? chainio::engine::OpenMode::buffered
                                                                 : chainio::engine::OpenMode::as_declared;
        auto opened = handle->engine->open_file(*index, path, mode);
        if (!opened) return fail(handle, number_of(opened.error()), opened.error().message);
        *file = std::uint64_t{handle->number} << kHandleShift | *opened;
        return 0;
    });
}

int chainio_file_close(chainio_handle* handle, uint64_t file) {
    return used(handle, [&] {
        const bool open = handle->engine->file(file_of(handle, file)) != nullptr;
        auto closed = handle->engine->close_file(file_of(handle, file));
        return closed ? 0 : fail(handle, open ? EBUSY : EBADF, closed.error());
    });
}

int chainio_find_chain(chainio_handle* handle, const char* name) {
    return with(handle, [&] {
        if (name == nullptr) return fail(handle, EINVAL, "name must not be NULL");
        const auto& chains = handle->engine->spec().module().chains;
        std::vector<std::string> names;
        for (std::uint32_t i = 0; i < chains.size(); i++) {
            if (chains[i].mode != ir::ChainMode::call) continue;
            if (chains[i].name == name) return static_cast<int>(i);
            names.push_back(chains[i].name);
        }
        const auto near = chainio::diag::nearest(name, names);
        return fail(
            handle, ENOENT,
            std::string("there is no call chain '") + name + "'" + (near ? "; did you mean '" + *near + "'?" : ""));
    });
}

int chainio_get_chain(chainio_handle* handle, uint32_t index, chainio_chain_info* out) {
    return with(handle, [&] {
        const ir::Chain* chain = chain_of(handle, index);
        if (chain == nullptr) return fail(handle, ENOENT, "there is no such chain");
        chainio_chain_info info{};
        info.name = chain->name.c_str();
        info.params = static_cast<std::uint32_t>(chain->params.size());
        info.hops = chain->hops;
        info.result_kind = chain->result == ir::ResultKind::scalar ? CHAINIO_SCALAR : CHAINIO_BYTES;
        info.result_bits = chain->result_bits;
        info.result_signed = chain->result_signed;
        info.result_max = chain->result_max;
        return hand_out(handle, info, out);
    });
}

int chainio_get_param(chainio_handle* handle, uint32_t index, uint32_t param, chainio_param_info* out) {
    return with(handle, [&] {
        const ir::Chain* chain = chain_of(handle, index);
        if (chain == nullptr || param >= chain->params.size())
            return fail(handle, ENOENT, "there is no such parameter");
        const ir::Param& from = chain->params[param];
        chainio_param_info info{};
        info.name = from.name.c_str();
        info.kind = static_cast<std::uint32_t>(from.kind);
        info.bits = from.bits;
        info.is_signed = from.is_signed;
        info.max_bytes = from.max;
        if (from.kind == ir::Param::Kind::file) {
            info.file_class = handle->engine->spec().module().files[from.file_class].name.c_str();
        }
        return hand_out(handle, info, out);
    });
}

int chainio_submit(chainio_handle* handle, uint32_t chain, const chainio_arg* args, uint32_t count,
                   uint64_t user_data) {
    return used(handle, [&] {
        const auto refuse = [&](SubmitError error) {
            return fail(handle, number_of(error.kind), std::move(error.message));
        };
        // With another count they are not what the caller means by their places.
        if (auto wrong = wrong_call(handle->engine->spec().module(), chain, count)) return refuse(std::move(*wrong));
        const ir::Chain* called = chain_of(handle, chain);
        if (args == nullptr && count != 0) return fail(handle, EINVAL, "args must not be NULL");
        const auto wrong = [&](std::uint32_t i, const std::string& why) {
            return fail(handle, EINVAL,
                        "argument '" + called->params[i].name + "' of chain '" + called->name + "': " + why);
        };
        handle->args.clear();
        for (std::uint32_t i = 0; i < count; i++) {
            const chainio_arg& arg = args[i];
            switch (arg.kind) {
                case CHAINIO_FILE:
                    if (called->params[i].kind == ir::Param::Kind::file && !is_file_of(handle, arg.value))
                        return wrong(i, "it is none of the files that were opened with this handle");
                    handle->args.push_back(Argument::file(file_of(handle, arg.value)));
                    break;
                case CHAINIO_SCALAR: handle->args.push_back(Argument::scalar(arg.value)); break;
                case CHAINIO_BYTES:
                    if (arg.bytes == nullptr && arg.length != 0)
                        return wrong(i, "it has a length, but its bytes are NULL");
                    handle->args.push_back(
                        Argument::of_bytes({static_cast<const std::uint8_t*>(arg.bytes), arg.length}));
                    break;
                default: return wrong(i, "its kind " + std::to_string(arg.kind) + " is not one of enum chainio_kind");
            }
        }
        auto submitted = handle->engine->submit(chain, handle->args, user_data);
        return submitted ? 0 : refuse(std::move(submitted.error()));
    });
}

int chainio_reap(chainio_handle* handle, chainio_completion* out, uint32_t max, uint32_t min) {
    return used(handle, [&] {
        if (out == nullptr && max != 0) return fail(handle, EINVAL, "out must not be NULL");
        const std::span done(handle->done.data(), std::min<std::size_t>(max, handle->done.size()));
        auto count = handle->engine->reap(done, min);
        if (!count) return fail(handle, EIO, count.error());
        for (unsigned i = 0; i < *count; i++) convert(done[i], *chain_of(handle, done[i].chain), out[i]);
        return static_cast<int>(*count);
    });
}

int chainio_call(chainio_handle* handle, uint32_t chain, const chainio_arg* args, uint32_t count,
                 chainio_completion* out) {
    return used(handle, [&] {
        if (out == nullptr) return fail(handle, EINVAL, "out must not be NULL");
        if (handle->engine->in_flight() != 0) {
            return fail(handle, EBUSY,
                        "chains are in flight; chainio_call() wants none, use chainio_submit() and chainio_reap()");
        }
        if (const int wrong = chainio_submit(handle, chain, args, count, 0); wrong != 0) return wrong;
        const int got = chainio_reap(handle, out, 1, 1);
        if (got < 0) drop_chain(handle);
        return got < 0 ? got : 0;
    });
}

int chainio_cancel(chainio_handle* handle, uint64_t user_data) {
    return used(handle, [&] {
        const unsigned count = handle->engine->cancel(user_data);
        if (count != 0) return static_cast<int>(count);
        return fail(handle, ENOENT,
                    "no chain with user_data " + std::to_string(user_data) + " is running; it may have ended already");
    });
}

uint32_t chainio_in_flight(const chainio_handle* handle) { return handle == nullptr ? 0 : handle->engine->in_flight(); }

const char* chainio_outcome_name(chainio_handle* handle, uint32_t outcome) {
    const int result = with(handle, [&] {
        handle->text = spec::outcome_name(outcome, handle->engine->spec().module().reasons);
        return 0;
    });
    return result == 0 ? handle->text.c_str() : "";
}

uint64_t chainio_count_outcome(const chainio_handle* handle, uint32_t chain, uint32_t outcome) {
    if (chain_of(handle, chain) == nullptr) return 0;
    const auto& outcomes = handle->engine->chain_counters(chain).outcomes;
    return outcome < outcomes.size() ? outcomes[outcome] : 0;
}

uint64_t chainio_latency(const chainio_handle* handle, uint32_t chain, double percent) {
    return chain_of(handle, chain) == nullptr ? 0
                                              : handle->engine->chain_counters(chain).latency_ns.percentile(percent);
}

int chainio_get_counters(const chainio_handle* handle, chainio_counters* out) {
    return with(handle, [&] {
        const auto& from = handle->engine->counters();
        chainio_counters counters{};
        counters.syscalls = from.syscalls;
        counters.ring_reads = from.ring_reads;
        counters.fixed_reads = from.fixed_reads;
        counters.plain_reads = from.plain_reads;
        counters.page_cache_reads = from.page_cache_reads;
        counters.block_cache_hits = from.block_cache_hits;
        counters.block_cache_misses = from.block_cache_misses;
        counters.bytes_read = from.bytes_read;
        counters.retries = from.retries;
        counters.continued_reads = from.continued_reads;
        counters.frame_waits = from.frame_waits;
        return hand_out(handle, counters, out);
    });
}

int chainio_get_fallback(chainio_handle* handle, uint32_t index, chainio_fallback* out) {
    return with(handle, [&] {
        const auto& all = handle->engine->fallbacks().all();
        if (index >= all.size())
            return fail(handle, ENOENT,
                        "there is no fallback " + std::to_string(index) + "; there are " + std::to_string(all.size()));
        chainio_fallback fallback{};
        fallback.name = all[index].name.c_str();
        fallback.reason = all[index].reason.c_str();
        fallback.count = all[index].count;
        return hand_out(handle, fallback, out);
    });
}

}  // extern "C"
