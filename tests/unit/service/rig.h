// Requests over a disk in memory, and replies that take what they are given.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/service/requests.h"
#include "tests/unit/engine/fake_backend.h"

namespace chainio::service::test {

struct Collected : Sink {
    std::string text;
    std::size_t add(std::span<const std::uint8_t> bytes) override {
        text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        return bytes.size();
    }
};

// A reply with room for so many bytes.
struct Narrow : Collected {
    std::size_t room = 0;
    std::size_t add(std::span<const std::uint8_t> bytes) override {
        return Collected::add(bytes.first(std::min(bytes.size(), room - std::min(room, text.size()))));
    }
};

// Several requests at once over a disk that answers in any order.
class Rig {
  public:
    struct Options {
        unsigned in_flight = 64;
        Places places = {.run = 8};
        std::size_t memory = 1 << 20;
        std::uint64_t seed = 1, patience_ns = 0;
        std::vector<std::uint64_t> header = {};  // the file's
    };
    Rig(std::shared_ptr<const spec::Loaded> spec, engine::test::FakeDisk disk, const Options& options)
        : disk_(std::move(disk)), context_{&disk_, options.seed, {}} {
        engine_ = std::move(*engine::Engine::create(std::move(spec),
                                                    {.in_flight = options.in_flight, .umem_bytes = options.memory},
                                                    engine::test::make_fake, &context_));
        engine::OpenedFile file;
        file.offset_align = file.memory_align = 1;
        file.size = disk_.files[0].size();
        file.header = options.header;
        files_ = std::make_unique<Files>(std::vector<NamedFile>{{"a", 0, *engine_->add_file(file)}});
        requests = std::make_unique<Requests>(*engine_, *files_, options.places, options.patience_ns);
    }
    std::uint32_t start(const std::string& text, Sink& to) {
        return start(text, to, engine_->spec().module().services[0].on_request_tcp);
    }
    std::uint32_t start(const std::string& text, Sink& to, std::int32_t program) {
        const auto* bytes = reinterpret_cast<const std::uint8_t*>(text.data());
        return requests->start(0, program, {bytes, text.size()}, to, 0);
    }
    // Until one of `running` has ended; those of `running` are the slots.
    void turn(std::vector<std::uint32_t>& ended) {
        std::array<engine::Completion, 4> out;
        const auto count = engine_->reap(out, 1);
        ASSERT_TRUE(count.has_value());
        for (unsigned i = 0; i < *count; i++)
            if (const auto slot = requests->take(out[i])) go_on(*slot, ended);
        std::vector<std::uint32_t> again;
        again.swap(starved_);
        for (const std::uint32_t slot : again) go_on(slot, ended);
    }
    void go_on(std::uint32_t slot, std::vector<std::uint32_t>& ended) {
        switch (requests->go_on(slot)) {
            case RunState::ended: ended.push_back(slot); break;
            case RunState::starved: starved_.push_back(slot); break;
            case RunState::yields:
                starved_.push_back(slot);
                yields++;
                break;
            case RunState::short_:
                starved_.push_back(slot);
                shorts++;
                break;
            case RunState::full: full.push_back(slot); break;
            case RunState::chain: break;
        }
    }
    void forget(std::uint32_t slot) {
        for (auto* list : {&starved_, &full}) std::erase(*list, slot);
        requests->abandon(slot);
    }
    engine::Engine& engine() { return *engine_; }
    std::unique_ptr<Requests> requests;
    std::vector<std::uint32_t> full;  // slots whose replies found no room; who goes on with one takes it out
    unsigned yields = 0;              // how often one gave others their turn
    unsigned shorts = 0;              // how often one waited for memory

  private:
    engine::test::FakeDisk disk_;
    engine::test::FakeContext context_;
    std::unique_ptr<engine::Engine> engine_;
    std::unique_ptr<Files> files_;
    std::vector<std::uint32_t> starved_;
};

inline std::string answer_of(Rig& rig, const std::string& text) {
    Collected out;
    std::vector<std::uint32_t> ended;
    rig.go_on(rig.start(text, out), ended);
    while (ended.empty() && !testing::Test::HasFatalFailure()) rig.turn(ended);
    rig.requests->release(ended[0]);
    return out.text;
}

}  // namespace chainio::service::test
