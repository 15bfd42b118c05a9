#include "compiler/ir/interpret.h"
#include "tools/chainio/testing/steps.h"

namespace chainio::testing {
namespace {

class LoadedSteps : public Steps {
  public:
    LoadedSteps(std::shared_ptr<const spec::Loaded> spec, std::string name)
        : spec_(std::move(spec)), name_(std::move(name)) {}
    std::string name() const override { return name_; }
    std::expected<void, std::string> run(std::uint32_t program, cio_io& io, const std::uint8_t* block) override {
        spec_->run(program, io, block);
        return {};
    }

  private:
    std::shared_ptr<const spec::Loaded> spec_;
    std::string name_;
};

class WatchedSteps : public Steps {
  public:
    WatchedSteps(std::shared_ptr<const spec::Loaded> spec, Ended& ended) : spec_(std::move(spec)), ended_(ended) {}
    std::string name() const override { return "interpreter"; }
    std::expected<void, std::string> run(std::uint32_t program, cio_io& io, const std::uint8_t* block) override {
        ir::Trace trace;
        ir::interpret(spec_->artifact(), program, io, block, trace);
        if (trace.failed != nullptr) ended_ = {program, trace.failed};
        return {};
    }

  private:
    std::shared_ptr<const spec::Loaded> spec_;
    Ended& ended_;
};

}  // namespace

std::unique_ptr<Steps> make_loaded_steps(std::shared_ptr<const spec::Loaded> spec, std::string name) {
    return std::make_unique<LoadedSteps>(std::move(spec), std::move(name));
}

std::unique_ptr<Steps> make_watched_steps(std::shared_ptr<const spec::Loaded> spec, Ended& ended) {
    return std::make_unique<WatchedSteps>(std::move(spec), ended);
}

}  // namespace chainio::testing
