// Any bytes as what a client sends to the library's services over TCP. One server gets them whole, interprets its
// handlers and reads by preads; another gets them in pieces, runs native code over io_uring, has little room for
// replies, and sends results from their frames. Both say the same, and neither keeps a frame. The first byte names the
// service, the second the pieces.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "compiler/backends/backends.h"
#include "runtime/service/connection.h"
#include "runtime/service/generation.h"
#include "tests/fuzz/library.h"
#include "tools/chainio/store/build.h"

namespace {

using namespace chainio;
using fuzz::demand;
using fuzz::had;
using fuzz::Library;
using Bytes = std::span<const std::uint8_t>;

constexpr std::size_t kMostInput = 2048;  // of a run: longer ones only take longer
constexpr std::size_t kMostRequest = 1024;

class Items final : public store::Source {
  public:
    std::expected<bool, store::Problem> next(store::Row& row) override {
        if (at_ == items_.size()) return false;
        row = {items_[at_].first, items_[at_].second, static_cast<std::uint32_t>(at_ * 7), at_ + 1};
        at_++;
        return true;
    }
    std::string place(std::uint64_t number) const override { return "item " + std::to_string(number); }

  private:
    std::vector<std::pair<std::string, std::string>> items_ = {{"a", "1"},
                                                               {"b", ""},
                                                               {"key", "\r\nEND\r\n"},
                                                               {std::string(250, 'k'), "of the longest key"},
                                                               {"0123456789abcdef", std::string(100, 'v')},
                                                               {"page", std::string(4096, 'p')},
                                                               {"long", std::string(9000, 'l')}};
    std::size_t at_ = 0;
};

// A store that is gone with the fuzzer: nothing of it has a name once the engines have it open.
std::string make_store() {
    const std::string path =
        (std::filesystem::temp_directory_path() / ("fuzz-requests-" + std::to_string(getpid()))).string();
    Items items;
    demand(store::build(items, {.path = path}).has_value(), "no store can be made at " + path);
    return path;
}

// ---- a server without sockets ----

struct Pace {
    std::size_t received, sent;  // bytes at once, at most
    std::size_t room;            // for the text of replies
    std::uint32_t lends_from;    // bytes of a result that is sent from its frame
    bool parks;                  // a reply without room leaves its place
};

class Talker {
  public:
    Talker(std::shared_ptr<const spec::Loaded> loaded, const std::string& path, bool use_ring)
        : engine_(
              had(engine::Engine::create(
                      std::move(loaded),
                      {.in_flight = 8, .umem_bytes = std::size_t{1} << 20, .use_ring = use_ring, .huge_pages = false}),
                  "no engine")),
          // Nobody gives frames back: no request waits for one.
          generation_(*engine_, opened(*engine_, path), service::Places{.run = 1, .shed = 1, .parked = 1}, 0),
          service_(engine_->spec().module().services.front()),
          input_memory_(service::kInput) {}

    // What a client that sends `stream` gets.
    std::string answer(Bytes stream, const Pace& pace) {
        output_memory_.resize(pace.room);
        service::Input input(input_memory_.data(), input_memory_.size());
        service::Output output(output_memory_.data(), output_memory_.size());
        said_.clear();
        for (bool open = true; open;) {
            const ir::Framing& framing = service_.tcp_framing;
            const service::Request request =
                input.first(generation_.requests.fields_of(framing, input.bytes()), framing.end, kMostRequest);
            if (request.cut != service::Cut::more) {
                open = run(request, input, output, pace);
                continue;
            }
            if (stream.empty()) break;
            const std::size_t taken = input.add(stream.first(std::min(stream.size(), pace.received)));
            demand(taken != 0, "there is no room for the rest of a request");
            stream = stream.subspan(taken);
        }
        while (generation_.requests.running() != 0) reap();  // what was started ahead, and is not needed
        demand(output.empty() && generation_.lender.frames == 0 && generation_.lender.bytes == 0, "a reply was kept");
        for (const std::string& leak : engine_->leaks()) demand(false, leak);
        return said_;
    }

  private:
    static service::Files opened(engine::Engine& engine, const std::string& path) {
        const auto handle = engine.open_file(0, path);
        demand(handle.has_value(), "the store cannot be opened");
        return service::Files({{path, 0, *handle}});
    }

    // One request; false when the connection ends with it.
    bool run(const service::Request& request, service::Input& input, service::Output& output, const Pace& pace) {
        service::Requests& requests = generation_.requests;
        const bool too_long = request.cut != service::Cut::whole;
        const std::size_t length = too_long ? input.held() : request.length;
        const Bytes bytes = input.bytes().first(length);
        input.pin(true);
        output.use(generation_.lender, pace.lends_from);
        const std::uint32_t slot =
            too_long ? requests.start_failed(0, {.ending = service::Ending::malformed}, bytes, output, 0)
                     : requests.start(0, service_.on_request_tcp, bytes, output, 0);
        for (auto state = requests.go_on(slot); state != service::RunState::ended; state = requests.go_on(slot)) {
            if (state != service::RunState::full) {
                reap();
                continue;
            }
            if (pace.parks) requests.park(slot);
            send(output, pace.sent);
        }
        const bool closes = requests.closes(slot) || too_long;
        output.end_reply();
        input.pin(false);
        input.take(length);
        input.skip(requests.skips(slot));
        requests.release(slot);
        while (!output.empty()) send(output, pace.sent);
        return !closes;
    }

    void send(service::Output& output, std::size_t most) {
        std::array<service::Output::Piece, service::Output::kMostPieces> room;
        std::size_t length = 0;
        for (const auto& piece : output.unsent(room, most)) {
            const std::size_t here = std::min<std::size_t>(piece.length, most - length);
            said_.append(reinterpret_cast<const char*>(piece.data), here);
            length += here;
            if (length == most) break;
        }
        demand(length != 0, "a reply has no room, and nothing of it can be sent");
        output.sent(length);
    }

    void reap() {
        std::array<engine::Completion, 8> room;
        const unsigned count = had(engine_->reap(room, 1), "the engine failed");
        demand(count != 0, "a request waits for nothing");
        for (const auto& completion : std::span(room).first(count)) generation_.requests.take(completion);
    }

    std::unique_ptr<engine::Engine> engine_;
    service::Generation generation_;
    const ir::Service& service_;
    std::vector<std::uint8_t> input_memory_, output_memory_;
    std::string said_;
};

struct Pair {
    explicit Pair(const std::string& spec, const std::string& path)
        : whole(spec::Loaded::from_artifact(Library().lowered(spec)), path, false), cut(native(spec), path, true) {}

    static std::shared_ptr<const spec::Loaded> native(const std::string& spec) {
        ir::Artifact artifact = Library().lowered(spec);
        const auto built = had(backends::build_artifact(artifact, {}), "clang failed");
        auto loaded = had(spec::Loaded::from_bytes(built, spec), "the artifact cannot be loaded");
        demand(loaded->native(), loaded->interpreter_reason());
        return loaded;
    }

    Talker whole, cut;
};

std::array<Pair, 5>& pairs() {
    static const std::string path = make_store();
    static std::array<Pair, 5> made = {Pair("std/memcached.chain", path), Pair("std/kv.chain", path),
                                       Pair("std/memcached_binary.chain", path), Pair("std/http_store.chain", path),
                                       Pair("std/redis.chain", path)};
    [[maybe_unused]] static const bool gone = std::filesystem::remove(path);
    return made;
}

}  // namespace

// clang takes seconds for the artifacts, which are neither the first input's nor part of the time that the fuzzer has.
extern "C" int LLVMFuzzerInitialize(int*, char***) {
    pairs();
    return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 2 || size > kMostInput) return 0;
    Pair& pair = pairs()[data[0] % 5];
    const std::uint32_t piece = data[1];
    const Bytes stream(data + 2, size - 2);
    const std::string whole = pair.whole.answer(stream, {stream.size(), SIZE_MAX, service::kOutput, UINT32_MAX, false});
    const std::string cut =
        pair.cut.answer(stream, {piece % 16 + 1, piece + 1, 64 + piece / 16 * 64, 1 + piece % 4 * 64, piece % 2 == 0});
    demand(whole == cut, "one says\n" + whole + "\nthe other\n" + cut);
    return 0;
}
