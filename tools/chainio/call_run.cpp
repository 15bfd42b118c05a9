#include "tools/chainio/call_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <expected>
#include <nlohmann/json.hpp>

#include "compiler/diag/utf8.h"
#include "runtime/spec/outcomes.h"
#include "tools/chainio/call_origin.h"
#include "tools/chainio/commands.h"
#include "tools/chainio/keys.h"
#include "tools/chainio/printed.h"
#include "tools/chainio/summary.h"

namespace chainio::tool {
namespace {

using Clock = std::chrono::steady_clock;

struct Failure {
    int exit_code;
    std::string message;
};
using Status = std::expected<void, Failure>;

std::unexpected<Failure> fail(int exit_code, std::string message) {
    return std::unexpected(Failure{exit_code, std::move(message)});
}

const char* mode_name(ir::ChainMode mode) {
    switch (mode) {
        case ir::ChainMode::call: return "call";
        case ir::ChainMode::on_read: return "on read(…)";
        case ir::ChainMode::on_open: return "on open(…)";
        case ir::ChainMode::on_ready: return "on ready(…)";
        case ir::ChainMode::on_probe: return "on probe(…)";
    }
    return "unknown";
}

class Call {
  public:
    explicit Call(const CallOptions& options)
        : options_(options),
          // On a terminal the results themselves are, as they come, and it would stand between them.
          shows_progress_(!options.quiet && isatty(STDERR_FILENO) == 1 && isatty(STDOUT_FILENO) == 0) {}

    Status prepare() {
        auto loaded = spec::Loaded::open(options_.words.artifact, {.use_native = !options_.interpret});
        if (!loaded) return fail(loaded.error().system ? kExitSystem : kExitFailed, loaded.error().message);
        spec_ = std::move(*loaded);
        if (auto found = find_chain(); !found) return found;
        if (auto known = check_names(); !known) return known;
        const unsigned in_flight = options_.in_flight != 0 ? options_.in_flight : options_.keys.empty() ? 1 : 64;
        engine::EngineOptions wanted{.in_flight = in_flight,
                                     .umem_bytes = options_.memory,
                                     .use_ring = !options_.no_ring,
                                     .kernel = options_.kernel,
                                     .spin_us = options_.spin_us};
        if (const std::string wrong = engine::wrong_options(wanted); !wrong.empty()) return fail(kExitUsage, wrong);
        if (options_.trial) wanted.trial.emplace();
        auto engine = engine::Engine::create(spec_, wanted);
        if (!engine) return fail(kExitSystem, engine.error());
        engine_ = std::move(*engine);
        return bind();
    }

    // The exit code of a run that could be started.
    std::expected<int, Failure> run() {
        const auto start = Clock::now();
        auto status = options_.keys.empty() ? run_once() : run_keys(start);
        const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
        if (const std::string trouble = printing_trouble(); !trouble.empty())
            return fail(kExitSystem, "cannot write the results: " + trouble);
        if (status || printed_ != 0) report(seconds);  // what could not begin has done nothing
        if (!status) return std::unexpected(status.error());
        return failed_ == 0 ? kExitOk : kExitFailed;
    }

  private:
    const ir::Module& module() const { return spec_->module(); }

    Status find_chain() {
        const auto index = spec_->find_chain(options_.words.chain);
        if (!index) {
            std::vector<std::string> names;
            for (const auto& chain : module().chains) {
                if (chain.mode == ir::ChainMode::call) names.push_back(chain.name);
            }
            return fail(kExitUsage,
                        fmt::format("'{}' has no chain '{}'{}", options_.words.artifact, options_.words.chain,
                                    suggestion(options_.words.chain, names, "call chains")));
        }
        chain_index_ = *index;
        chain_ = &module().chains[*index];
        if (chain_->mode == ir::ChainMode::call) return {};
        return fail(
            kExitUsage,
            fmt::format("'{}' is a shadow chain ({}); it runs beside a program: chainio run --spec SPEC -- PROGRAM",
                        chain_->name, mode_name(chain_->mode)));
    }

    Status check_names() {
        std::vector<std::string> names;
        for (const auto& param : chain_->params) names.push_back(param.name);
        for (const auto& [name, value] : options_.words.named) {
            if (std::find(names.begin(), names.end(), name) != names.end()) continue;
            const std::string near = suggestion(name, names, "parameters");
            return fail(kExitUsage, fmt::format("chain '{}' has no parameter '{}'{}{}", chain_->name, name, near,
                                                near.ends_with('?') ? "" : whole_path(name)));
        }
        return {};
    }

    // Of `--file year=2026/a.parquet`, what stands before the `=` is no parameter, and was not meant as one.
    std::string whole_path(const std::string& name) const {
        const auto file = std::ranges::find(chain_->params, ir::Param::Kind::file, &ir::Param::kind);
        if (file == chain_->params.end() || std::ranges::find(options_.file_names, name) == options_.file_names.end())
            return "";
        return fmt::format("; a path with a `=` in it has its name: --file {}=PATH", file->name);
    }

    Status bind() {
        args_.resize(chain_->params.size());
        values_.resize(chain_->params.size());
        paths_.resize(chain_->params.size());
        unsigned files = 0;
        for (const auto& param : chain_->params) files += param.kind == ir::Param::Kind::file;
        for (std::size_t i = 0; i < chain_->params.size(); i++) {
            const ir::Param& param = chain_->params[i];
            const auto given = options_.words.named.find(param.name);
            const bool has = given != options_.words.named.end();
            if (param.kind == ir::Param::Kind::file) {
                if (has && files == 1 && !options_.only_file.empty())
                    return fail(kExitUsage, fmt::format("'{}' is given twice", param.name));
                const std::string path = has ? given->second : files == 1 ? options_.only_file : "";
                if (path.empty()) return missing(param, fmt::format("--file {}=PATH", param.name));
                auto handle = engine_->open_file(param.file_class, path, options_.mode);
                if (!handle) return fail(handle.error().system ? kExitSystem : kExitFailed, handle.error().message);
                args_[i] = engine::Argument::file(*handle);
                paths_[i] = path;
            } else if (has) {
                auto value = parse_value(param, given->second);
                if (!value) return fail(kExitUsage, value.error());
                set(i, std::move(*value));
            } else if (!options_.keys.empty()) {
                from_keys_.push_back(i);
            } else {
                return missing(param, is_own(param.name) ? fmt::format("--arg {}=VALUE", param.name)
                                                         : fmt::format("--{} VALUE", param.name));
            }
        }
        if (!options_.only_file.empty() && files != 1) {
            return fail(kExitUsage,
                        fmt::format("chain '{}' has {} file parameters; name the one that is meant: --file NAME=PATH",
                                    chain_->name, files));
        }
        if (!options_.keys.empty() && from_keys_.empty()) {
            return fail(kExitUsage,
                        fmt::format("every parameter of '{}' is given, so there is nothing for --keys to fill in",
                                    chain_->name));
        }
        return {};
    }

    bool is_own(const std::string& name) const {
        return std::ranges::find(options_.own_names, name) != options_.own_names.end();
    }

    std::unexpected<Failure> missing(const ir::Param& param, const std::string& how) {
        return fail(kExitUsage, fmt::format("parameter '{}' is not given ({}); the chain is {}", param.name, how,
                                            signature(module(), *chain_)));
    }

    void set(std::size_t index, Value value) {
        values_[index] = std::move(value);
        args_[index] = chain_->params[index].kind == ir::Param::Kind::scalar
                           ? engine::Argument::scalar(values_[index].scalar)
                           : engine::Argument::of_bytes(values_[index].bytes);
    }

    Status run_once() {
        if (auto submitted = engine_->submit(chain_index_, args_, 0); !submitted)
            return fail(kExitUsage, submitted.error().message);
        engine::Completion completion;
        auto count = engine_->reap({&completion, 1}, 1);
        if (!count) return fail(kExitSystem, count.error());
        const Result result = keep(completion);
        std::optional<testing::Origin> origin;
        if (result.outcome != CIO_OK && (options_.json || !options_.quiet))
            origin = origin_of_call(spec_, chain_index_, values_, paths_, result);
        print(result, nullptr, origin ? &*origin : nullptr);
        if (result.outcome == CIO_OK || options_.json) return {};
        std::string meaning = "the chain's own word";
        if (result.outcome < spec::outcomes().size()) meaning = spec::outcomes()[result.outcome].meaning;
        say("chainio call: '{}' ended with {}: {}\n", diag::escaped(chain_->name),
            diag::escaped(spec::outcome_name(result.outcome, module().reasons)), meaning);
        if (const std::string text = origin ? described(*origin) : ""; !text.empty())
            say("  it {}\n", diag::escaped(text));
        return {};
    }

    // Bytes are taken as they are; where numbers end a line, it may end as on Windows, and empty ones are passed over.
    bool ends_in_bytes() const { return chain_->params[from_keys_.back()].kind == ir::Param::Kind::bytes; }

    Status take_line(std::string_view line, std::uint64_t number) {
        std::size_t at = 0;
        for (std::size_t i = 0; i < from_keys_.size(); i++) {
            const std::size_t tab = line.find('\t', at);
            const bool last = i + 1 == from_keys_.size();
            if (last ? tab != std::string::npos : tab == std::string::npos) {
                return fail(kExitFailed,
                            fmt::format("{}:{}: {} wanted", options_.keys, number,
                                        from_keys_.size() == 1
                                            ? "one value, without a tab, is"
                                            : fmt::format("{} values separated by tabs are", from_keys_.size())));
            }
            const std::size_t index = from_keys_[i];
            auto value = parse_value(chain_->params[index], line.substr(at, last ? std::string::npos : tab - at));
            if (!value) return fail(kExitFailed, fmt::format("{}:{}: {}", options_.keys, number, value.error()));
            set(index, std::move(*value));
            at = tab + 1;
        }
        return {};
    }

    static std::unexpected<Failure> unread(const UnreadKeys& keys) {
        return fail(keys.system ? kExitSystem : kExitFailed, keys.why);
    }

    Status run_keys(Clock::time_point start) {
        auto keys = Keys::open(options_.keys);
        if (!keys) return unread(keys.error());
        std::vector<engine::Completion> done(engine_->capacity());
        std::expected<bool, Failure> more = true;
        while (true) {
            if (more.value_or(false)) more = start_runs(*keys);
            const unsigned in_flight = engine_->in_flight();
            if (in_flight == 0) break;
            // In the kernel a whole batch ends in one system call; half of it, so that the other half goes on
            // meanwhile.
            const unsigned batch = engine_->in_kernel() ? (more.value_or(false) ? in_flight / 2 : in_flight) : 1;
            auto count = engine_->reap(done, std::max(batch, 1u));
            if (!count) return fail(kExitSystem, count.error());
            for (unsigned i = 0; i < *count; i++) {
                Waiting& waiting = window_[done[i].user_data - printed_];
                waiting.result = keep(done[i]);
                waiting.done = true;
            }
            print_ready();
            progress(*keys, start);
        }
        clear_progress();
        if (!more) return std::unexpected(more.error());
        return {};
    }

    // Of the keys that are at hand, as many as there is room for. False: there are no more, or nobody gets their
    // results. Behind true some run is under way.
    std::expected<bool, Failure> start_runs(Keys& keys) {
        // Results are printed in the order of the input; the window bounds how many wait for an earlier one.
        const std::size_t window_limit = std::size_t{engine_->capacity()} * 16 + 1024;
        std::string line;
        while (engine_->in_flight() < engine_->capacity() && window_.size() < window_limit) {
            if (!keys.at_hand() && !may_wait()) return true;
            if (printing_error() != 0) return false;
            const auto there = keys.next(line);
            if (!there) return unread(there.error());
            if (!*there) return false;
            if (!ends_in_bytes() && line.ends_with('\r')) line.pop_back();
            if (line.empty() && !ends_in_bytes()) continue;
            if (auto submitted = submit_line(line, keys.number()); !submitted)
                return std::unexpected(submitted.error());
        }
        return true;
    }

    // Whoever writes the keys may want the results of some before it writes more: these come first.
    bool may_wait() {
        flush_printed();
        return engine_->in_flight() == 0;
    }

    Status submit_line(const std::string& line, std::uint64_t number) {
        if (auto taken = take_line(line, number); !taken) return taken;
        if (auto submitted = engine_->submit(chain_index_, args_, printed_ + window_.size()); !submitted) {
            return fail(kExitFailed, fmt::format("{}:{}: {}", options_.keys, number, submitted.error().message));
        }
        window_.push_back({line, {}, false});
        return {};
    }

    void print_ready() {
        while (!window_.empty() && window_.front().done) {
            print(window_.front().result, &window_.front().line);
            window_.pop_front();
            printed_++;
        }
    }

    // With --keys, the line that was run.
    void print(const Result& result, const std::string* line, const testing::Origin* origin = nullptr) {
        const bool ok = result.outcome == CIO_OK;
        failed_ += !ok;
        if (line != nullptr && result.outcome == CIO_NOT_FOUND && line->ends_with('\r')) carriage_returns_++;
        std::string text;
        if (options_.json) {
            const auto from = origin != nullptr ? origin_json(*origin) : nlohmann::ordered_json();
            text = result_json(module(), *chain_, result, line, origin != nullptr ? &from : nullptr) + "\n";
        } else if (options_.output == Output::raw) {
            text = ok ? value_text(*chain_, result, Output::raw) : "";
        } else if (line == nullptr) {
            text = ok ? value_text(*chain_, result, options_.output) + "\n" : "";
        } else {
            text = fmt::format("{}\t{}\t{}\n", *line, spec::outcome_name(result.outcome, module().reasons),
                               ok ? value_text(*chain_, result, options_.output) : "");
        }
        print_text(text);
    }

    void progress(const Keys& keys, Clock::time_point start) {
        if (!shows_progress_) return;
        const auto now = Clock::now();
        if (now - start < std::chrono::seconds(1) || now - last_progress_ < std::chrono::milliseconds(200)) return;
        last_progress_ = now;
        const double seconds = std::chrono::duration<double>(now - start).count();
        say("\r{} runs, {:.0f}/s", printed_, static_cast<double>(printed_) / seconds);
        if (keys.percent() >= 0) say(", {} % of the keys", keys.percent());
        say("\x1b[K");
        progress_shown_ = true;
    }
    void clear_progress() {
        if (progress_shown_) say("\r\x1b[K");
    }

    void report(double seconds) {
        if (carriage_returns_ != 0 && !options_.quiet)
            say("note: {} of the keys that were not found end{} with a carriage return, as lines of Windows do; "
                "it is a part of the key (`tr -d '\\r'` removes it)\n",
                carriage_returns_, carriage_returns_ == 1 ? "s" : "");
        if (options_.json) {
            if (!options_.keys.empty() || options_.summary) {
                print_out("{{\"summary\": {}}}\n", summary_json(*engine_, chain_index_, seconds));
            }
        } else if (options_.quiet) {
            return;
        } else if (!options_.keys.empty() || options_.summary) {
            say("{}", summary_text(*engine_, chain_index_, seconds));
        } else {
            say("{}", fallbacks_text(engine_->fallbacks()));
        }
    }

    struct Waiting {
        std::string line;
        Result result;
        bool done = false;
    };

    const CallOptions& options_;
    const bool shows_progress_;
    std::shared_ptr<const spec::Loaded> spec_;
    std::unique_ptr<engine::Engine> engine_;
    const ir::Chain* chain_ = nullptr;
    std::uint32_t chain_index_ = 0;
    std::vector<engine::Argument> args_;
    std::vector<Value> values_;
    std::vector<std::string> paths_;      // of the files; by parameter, as these
    std::vector<std::size_t> from_keys_;  // parameters that each line of keys gives
    std::deque<Waiting> window_;
    std::uint64_t printed_ = 0, failed_ = 0;
    std::uint64_t carriage_returns_ = 0;  // at the end of keys that were not found
    Clock::time_point last_progress_{};
    bool progress_shown_ = false;
};

}  // namespace

int run_call(const CallOptions& options) {
    Call call(options);
    const auto report = [](const Failure& failure) {
        say("chainio call: {}\n", diag::escaped(failure.message));
        return failure.exit_code;
    };
    if (auto prepared = call.prepare(); !prepared) return report(prepared.error());
    auto code = call.run();
    return code ? *code : report(code.error());
}

}  // namespace chainio::tool
