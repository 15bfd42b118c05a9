#include "tests/support/random_chains.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <optional>

#include "compiler/ir/names.h"
#include "runtime/engine/engine.h"
#include "tests/support/random_ir.h"
#include "tests/support/reference.h"
#include "tests/unit/engine/machine.h"

namespace chainio::tests {
namespace {

using Bytes = std::vector<std::uint8_t>;
constexpr std::uint64_t kTries = 200;  // for a file that its class's header program takes

// Of random statements: bytes that are small numbers more often than not.
Bytes plain_bytes(Random& random) {
    Bytes bytes(512 + random.below(128 << 10));
    for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random.one_in(3) ? random.next() : random.below(5));
    return bytes;
}

std::optional<Bytes> file_bytes(const spec::Loaded& spec, std::uint32_t file_class, Random& random) {
    if (spec.module().files[file_class].header_program < 0)
        return engine::test::random_cells([&] { return random.next(); }, 1 + random.below(300));
    for (std::uint64_t n = 0; n < kTries; n++) {
        Bytes bytes = plain_bytes(random);
        const std::size_t head = spec.module().files[file_class].header_bytes;
        if (engine::run_header(spec, file_class, std::span(bytes).first(std::min(head, bytes.size())))) return bytes;
    }
    return std::nullopt;
}

std::int64_t read_bytes(const Bytes& file, std::uint64_t offset, std::span<std::uint8_t> out) {
    if (offset >= file.size()) return 0;
    const std::size_t length = std::min<std::uint64_t>(out.size(), file.size() - offset);
    std::memcpy(out.data(), file.data() + offset, length);
    return static_cast<std::int64_t>(length);
}

// A file of random bytes that is gone with the object.
class DataFile {
  public:
    DataFile(const std::string& folder, std::size_t number, Bytes bytes)
        : path_(fmt::format("{}/random{}.data", folder, number)), bytes_(std::move(bytes)) {
        std::ofstream out(path_, std::ios::binary | std::ios::trunc);
        out.write(reinterpret_cast<const char*>(bytes_.data()), static_cast<std::streamsize>(bytes_.size()));
        out.close();
        written_ = out.good();
    }
    DataFile(const DataFile&) = delete;
    DataFile& operator=(const DataFile&) = delete;
    ~DataFile() { unlink(path_.c_str()); }
    bool written() const { return written_; }
    const std::string& path() const { return path_; }
    const Bytes& bytes() const { return bytes_; }

  private:
    std::string path_;
    Bytes bytes_;
    bool written_ = false;
};

// A timer whose signal does nothing but come.
class Signals {
  public:
    explicit Signals(bool on) : on_(on) {
        if (!on_) return;
        struct sigaction action{};
        action.sa_handler = [](int) {};
        sigaction(SIGALRM, &action, &before_);
        const itimerval often{{0, 3000}, {0, 3000}};
        setitimer(ITIMER_REAL, &often, nullptr);
    }
    Signals(const Signals&) = delete;
    Signals& operator=(const Signals&) = delete;
    ~Signals() {
        if (!on_) return;
        const itimerval never{};
        setitimer(ITIMER_REAL, &never, nullptr);
        sigaction(SIGALRM, &before_, nullptr);
    }

  private:
    bool on_;
    struct sigaction before_{};
};

struct Asked {
    std::uint32_t chain = 0;
    std::uint64_t number = 0;  // the scalar
    Bytes name;
    bool cancelled = false, ended = false;
};

class ChainRunner {
  public:
    ChainRunner(std::shared_ptr<const spec::Loaded> spec, const ChainRun& run)
        : spec_(std::move(spec)), run_(run), random_(run.seed) {
        for (std::uint32_t i = 0; i < spec_->module().chains.size(); i++)
            if (spec_->module().chains[i].mode == ir::ChainMode::call) chains_.push_back(i);
    }

    std::string prepare() {
        engine::EngineOptions options;
        options.in_flight = static_cast<unsigned>(1 + random_.below(40));
        const std::size_t memories[] = {0, 256 << 10, 4 << 20};
        options.umem_bytes = memories[random_.below(3)];
        options.huge_pages = random_.one_in(2);
        options.kernel = run_.kernel;
        options.trial = run_.trial;
        auto made = engine::Engine::create(spec_, options);
        if (!made) return made.error();
        engine_ = std::move(*made);
        for (std::uint32_t i = 0; i < spec_->module().files.size(); i++) {
            auto bytes = file_bytes(*spec_, i, random_);
            if (!bytes) return "its header program takes no random file";
            files_.push_back(std::make_unique<DataFile>(run_.folder, i, std::move(*bytes)));
            if (!files_.back()->written()) return "cannot write " + files_.back()->path();
            const bool direct = random_.one_in(2);
            auto handle = engine_->open_file(i, files_.back()->path(),
                                             direct ? engine::OpenMode::direct : engine::OpenMode::buffered);
            if (!handle) return handle.error().message;
            handles_.push_back(*handle);
        }
        return {};
    }

    std::expected<ChainTotals, std::string> all() {
        Signals signals(run_.signals);
        std::vector<engine::Completion> out(1 + random_.below(40));
        for (std::uint64_t ended = 0; ended < run_.chains && totals_.different.empty();) {
            while (asked_.size() < run_.chains && engine_->in_flight() < engine_->capacity() && !random_.one_in(8))
                if (std::string wrong = submit(); !wrong.empty()) return std::unexpected(wrong);
            if (!asked_.empty() && random_.one_in(8))
                cancel(asked_[asked_.size() - 1 - random_.below(std::min<std::size_t>(asked_.size(), 40))]);
            auto count = engine_->reap(out, static_cast<unsigned>(random_.below(6)));
            if (!count) return std::unexpected(count.error());
            for (unsigned i = 0; i < *count && totals_.different.empty(); i++) check(out[i]);
            ended += *count;
        }
        if (totals_.different.empty() && engine_->in_flight() != 0) totals_.different = "a chain ended twice";
        totals_.engine = engine_->describe();
        totals_.fallbacks = engine_->fallbacks();
        // Before its chains went to the kernel, the user engine has to have got back all that it had.
        const auto leaks = engine_->in_kernel() ? engine_->leaks() : std::vector<std::string>{};
        if (!leaks.empty() && totals_.different.empty()) totals_.different = "not given back: " + leaks.front();
        totals_.reads = engine_->counters().ring_reads;
        totals_.syscalls = engine_->counters().syscalls;
        return totals_;
    }

  private:
    std::string submit() {
        Asked asked;
        asked.chain = chains_[random_.below(chains_.size())];
        asked.number = random_.one_in(4) ? random_.interesting() : random_.below(300) * 64;
        asked.name.resize(random_.below(17));
        for (auto& byte : asked.name) byte = static_cast<std::uint8_t>(random_.next());
        std::vector<engine::Argument> args;
        for (const ir::Param& param : spec_->module().chains[asked.chain].params) {
            if (param.kind == ir::Param::Kind::scalar && param.bits < 64) asked.number &= (1ull << param.bits) - 1;
            switch (param.kind) {
                case ir::Param::Kind::file: args.push_back(engine::Argument::file(handles_[param.file_class])); break;
                case ir::Param::Kind::scalar: args.push_back(engine::Argument::scalar(asked.number)); break;
                default: args.push_back(engine::Argument::of_bytes(asked.name));
            }
        }
        auto submitted = engine_->submit(asked.chain, args, asked_.size());
        if (!submitted) return submitted.error().message;
        asked_.push_back(std::move(asked));
        return {};
    }

    void cancel(Asked& asked) {
        const auto number = static_cast<std::uint64_t>(&asked - asked_.data());
        if (engine_->cancel(number) == 0) return;
        if (asked.ended || asked.cancelled)
            totals_.different = fmt::format("chain {} was cancelled after its end", number);
        asked.cancelled = true;
    }

    ReferenceResult expected(const Asked& asked) const {
        const ir::Chain& chain = spec_->module().chains[asked.chain];
        std::vector<ReferenceArgument> args;
        std::vector<ReferenceFile> files;
        for (const ir::Param& param : chain.params) {
            args.push_back({param.kind == ir::Param::Kind::scalar ? asked.number : 0,
                            param.kind == ir::Param::Kind::bytes ? asked.name : Bytes{}, param.file_class});
            if (param.kind != ir::Param::Kind::file) continue;
            const engine::OpenedFile* file = engine_->file(handles_[param.file_class]);
            files.push_back({file->size, file->header});
        }
        return run_reference(spec_->artifact(), asked.chain, args, files,
                             [this](std::uint32_t file, std::uint64_t offset, std::span<std::uint8_t> out) {
                                 return read_bytes(files_[file]->bytes(), offset, out);
                             });
    }

    void check(const engine::Completion& got) {
        Asked& asked = asked_[got.user_data];
        ReferenceResult want;
        if (asked.cancelled) {
            want.outcome = CIO_CANCELLED;
        } else {
            want = expected(asked);
        }
        totals_.chains++;
        totals_.outcomes[ir::outcome_name(spec_->module(), got.outcome)]++;
        const Bytes bytes(got.bytes.begin(), got.bytes.end());
        const bool same = got.outcome == want.outcome && (asked.cancelled || got.hops == want.hops) &&
                          got.kind == want.kind && got.scalar == want.scalar && bytes == want.bytes && !asked.ended;
        asked.ended = true;
        if (same) return;
        totals_.different = fmt::format(
            "chain {} ({}, {}): {} after {} reads, scalar {:#x}, {} bytes; the reference: {} after {} reads, scalar "
            "{:#x}, {} bytes",
            got.user_data, spec_->module().chains[asked.chain].name, asked.number,
            ir::outcome_name(spec_->module(), got.outcome), got.hops, got.scalar, bytes.size(),
            ir::outcome_name(spec_->module(), want.outcome), want.hops, want.scalar, want.bytes.size());
    }

    std::shared_ptr<const spec::Loaded> spec_;
    const ChainRun& run_;
    Random random_;
    std::vector<std::uint32_t> chains_;
    std::vector<std::unique_ptr<DataFile>> files_;
    std::unique_ptr<engine::Engine> engine_;
    std::vector<engine::FileHandle> handles_;
    std::vector<Asked> asked_;
    ChainTotals totals_;
};

// Random statements seldom read on: their entry and their first step begin with a read that is sure.
void read_on(ir::Program& program, std::uint16_t step, Random& random) {
    const auto imm = [](std::uint64_t value) { return ir::Operand::imm(value); };
    ir::Stmt stmt;
    stmt.line = program.body.front().line;
    stmt.node = ir::Next{step, 0, imm(random.below(512)), imm(1 + random.below(4096)), imm(random.next())};
    program.body.insert(program.body.begin(), std::move(stmt));
}

ir::Artifact made_by_blocks(Random& random) {
    engine::test::MachineOptions options;
    options.hops = static_cast<std::uint32_t>(1 + random.below(60));
    options.with_done = random.one_in(2);
    options.result = static_cast<ir::ResultKind>(random.below(3));
    options.priority = static_cast<std::uint32_t>(random.below(8));
    return engine::test::machine(options);
}

}  // namespace

ir::Artifact chain_artifact(std::uint64_t seed, std::uint64_t number) {
    Random random(seed * 0x100000001b3u + number * 0x9e3779b97f4a7c15u);
    if (number % 2 == 0) return made_by_blocks(random);
    while (true) {
        ir::Artifact artifact = random_artifact(random, number % 3 == 0 ? 8 : 40);
        const ir::Chain& chain = artifact.module.chains[0];
        read_on(artifact.module.programs[static_cast<std::size_t>(chain.entry)], 0, random);
        read_on(artifact.module.programs[chain.steps[0].program], 1, random);
        Random files(seed + number);
        if (file_bytes(*spec::Loaded::from_artifact(artifact), 0, files)) return artifact;
    }
}

std::expected<ChainTotals, std::string> run_random_chains(std::shared_ptr<const spec::Loaded> spec,
                                                          const ChainRun& run) {
    ChainRunner runner(std::move(spec), run);
    if (std::string wrong = runner.prepare(); !wrong.empty()) return std::unexpected(wrong);
    return runner.all();
}

}  // namespace chainio::tests
