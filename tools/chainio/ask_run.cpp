#include "tools/chainio/ask_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <expected>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/diag/utf8.h"
#include "runtime/ipc/client.h"
#include "tools/chainio/commands.h"
#include "tools/chainio/escapes.h"
#include "tools/chainio/keys.h"
#include "tools/chainio/printed.h"

namespace chainio::tool {
namespace {

using Clock = std::chrono::steady_clock;

// As many as a frame has at most, so that replies find room, too.
constexpr std::uint32_t kMostRequest = umem::kMaxFrame;

struct Unasked {
    int exit_code;
    std::string message;
};
using Asked = std::expected<void, Unasked>;

std::unexpected<Unasked> unasked(int exit_code, std::string message) {
    return std::unexpected(Unasked{exit_code, std::move(message)});
}

std::string too_long() { return fmt::format("it has more than {} bytes, and no request has", kMostRequest); }

// All of standard input.
std::expected<std::string, Unasked> whole_input() {
    std::string bytes;
    for (;;) {
        char buffer[16384];
        const ssize_t got = read(STDIN_FILENO, buffer, sizeof buffer);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return unasked(kExitSystem, fmt::format("cannot read standard input: {}", std::strerror(errno)));
        if (got == 0) return bytes;
        bytes.append(buffer, static_cast<std::size_t>(got));
        if (bytes.size() > kMostRequest) return unasked(kExitFailed, "standard input is no request: " + too_long());
    }
}

class Ask {
  public:
    Ask(const AskOptions& options, ipc::Client client)
        : options_(options), client_(std::move(client)), answered_(client_.frames()) {}

    Asked once(std::string_view request) {
        submit({}, request);
        if (auto reaped = reap(); !reaped) return reaped;
        if (failed_ != 0 && !options_.json)
            say("chainio ask: '{}' has given no reply: it does not understand the request, or has no time for it\n",
                diag::escaped(options_.service));
        return {};
    }

    // In the order of the lines, whatever order their replies come in.
    Asked lines() {
        auto keys = Keys::open("-");
        if (!keys) return unread(keys.error());
        std::expected<bool, Unasked> more = true;
        while (true) {
            if (more.value_or(false)) more = submit_lines(*keys);
            if (client_.in_flight() == 0) break;
            if (auto reaped = reap(); !reaped) return reaped;
        }
        if (!more) return std::unexpected(std::move(more.error()));
        return {};
    }

    bool all_answered() const { return failed_ == 0; }

  private:
    struct Waiting {
        std::string line;
        Clock::time_point since;
        std::optional<std::string> reply;
        std::uint64_t ns = 0;
        bool done = false;
    };

    static std::unexpected<Unasked> unread(const UnreadKeys& keys) {
        return unasked(keys.system ? kExitSystem : kExitFailed, keys.why);
    }

    void submit(std::string line, std::string_view request) {
        const std::uint32_t number = *client_.take();  // submit_lines() looks whether there is one
        std::memcpy(client_.frame(number), request.data(), request.size());
        window_.push_back({.line = std::move(line), .since = Clock::now(), .reply = {}});
        // What is wrong with the channel is wrong with the next reap, too.
        static_cast<void>(client_.submit(number, request.size(), printed_ + window_.size() - 1));
    }

    // Of the lines that are at hand, as many as there is room for. False: there are no more, or nobody gets the
    // replies. Behind true some request is under way.
    std::expected<bool, Unasked> submit_lines(Keys& keys) {
        const std::size_t window_limit = client_.frames() * 16 + 1024;
        std::string line;
        while (client_.in_flight() < client_.frames() && window_.size() < window_limit) {
            if (!keys.at_hand() && !may_wait()) return true;
            if (printing_error() != 0) return false;
            const auto there = keys.next(line);
            if (!there) return unread(there.error());
            if (!*there) return false;
            auto request = request_bytes(line);
            if (!request)
                return unasked(kExitFailed, fmt::format("standard input:{}: {}", keys.number(), request.error()));
            submit(line, *request);
        }
        return true;
    }

    // Whoever writes the lines may want the replies to some before it writes more: these come first.
    bool may_wait() {
        flush_printed();
        return client_.in_flight() == 0;
    }

    // Waits for replies, and prints those whose turn it is.
    Asked reap() {
        const auto count = client_.reap(answered_, static_cast<int>(options_.timeout_ms));
        if (!count && count.error().number == EPIPE)
            return unasked(kExitSystem,
                           fmt::format("the server of '{}' is gone; start chainio-runtime again", options_.path));
        if (!count) return unasked(kExitSystem, fmt::format("'{}': {}", options_.path, count.error().why));
        if (*count == 0)
            return unasked(kExitSystem, fmt::format("'{}' has not replied within {} ms; --timeout-ms waits longer, and "
                                                    "`chainio control SOCKET stats` says what it does",
                                                    options_.path, options_.timeout_ms));
        const auto now = Clock::now();
        for (const ipc::Answered& one : std::span(answered_).first(*count)) {
            Waiting& waiting = window_[one.user_data - printed_];
            waiting.ns = static_cast<std::uint64_t>(std::chrono::nanoseconds(now - waiting.since).count());
            waiting.done = true;
            if (one.answered) waiting.reply.emplace(one.bytes.begin(), one.bytes.end());
            static_cast<void>(client_.release(one.number));
        }
        for (; !window_.empty() && window_.front().done; printed_++) {
            print(window_.front());
            window_.pop_front();
        }
        return {};
    }

    void print(const Waiting& waiting) {
        const bool ok = waiting.reply.has_value();
        failed_ += !ok;
        if (options_.json) return print_text(json_of(waiting) + "\n");
        const std::string text = ok ? shown(*waiting.reply) : "";
        if (options_.output == Output::raw)
            print_text(text);
        else if (options_.lines)
            print_out("{}\t{}\t{}\n", waiting.line, ok ? "ok" : "unanswered", text);
        else if (ok)
            print_out("{}\n", text);
    }

    static std::span<const std::uint8_t> bytes_of(const std::string& text) {
        return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
    }

    std::string shown(const std::string& reply) const {
        if (options_.output == Output::raw) return reply;
        return options_.output == Output::hex ? hexadecimal(bytes_of(reply)) : printable(bytes_of(reply));
    }

    std::string json_of(const Waiting& waiting) const {
        nlohmann::ordered_json json;
        if (options_.lines) {
            json["request"] = text_json(waiting.line);
            if (json["request"].is_null()) json["request_hex"] = hexadecimal(bytes_of(waiting.line));
        }
        json["outcome"] = waiting.reply ? "ok" : "unanswered";
        if (waiting.reply) {
            json["hex"] = hexadecimal(bytes_of(*waiting.reply));
            json["text"] = text_json(*waiting.reply);
        }
        json["ns"] = waiting.ns;
        return json.dump();
    }

    const AskOptions& options_;
    ipc::Client client_;
    std::vector<ipc::Answered> answered_;
    std::deque<Waiting> window_;
    std::uint64_t printed_ = 0, failed_ = 0;
};

std::expected<int, Unasked> ask_all(const AskOptions& options) {
    std::expected<std::string, Unasked> request;
    if (!options.lines) {
        // What is wrong with it is so without a server, too.
        if (options.request == "-") {
            request = whole_input();
        } else if (auto bytes = request_bytes(options.request)) {
            request = std::move(*bytes);
        } else {
            request = unasked(kExitUsage, bytes.error());
        }
        if (!request) return std::unexpected(std::move(request.error()));
    }
    const unsigned in_flight = options.in_flight != 0 ? options.in_flight : options.lines ? 64 : 1;
    auto client = ipc::Client::open(options.path, options.service,
                                    {.shape = {.frames = in_flight, .frame_bytes = kMostRequest},
                                     .spin_us = options.spin_us,
                                     .open_ms = options.timeout_ms});
    if (!client) {
        const bool usage = client.error().number == EINVAL || client.error().number == ENAMETOOLONG;
        return unasked(usage ? kExitUsage : kExitSystem, std::move(client.error().why));
    }
    Ask ask(options, std::move(*client));
    auto asked = options.lines ? ask.lines() : ask.once(*request);
    if (const std::string trouble = printing_trouble(); !trouble.empty())
        return unasked(kExitSystem, "cannot write the replies: " + trouble);
    if (!asked) return std::unexpected(std::move(asked.error()));
    return ask.all_answered() ? kExitOk : kExitFailed;
}

}  // namespace

std::expected<std::string, std::string> request_bytes(std::string_view text) {
    std::string bytes;
    if (text.starts_with("text:")) {
        bytes = text.substr(5);
    } else if (text.starts_with("hex:")) {
        const std::string_view digits = text.substr(4);
        if (digits.size() % 2 != 0) return std::unexpected("hexadecimal bytes come in pairs of digits");
        for (std::size_t i = 0; i < digits.size(); i += 2) {
            const int high = hex_digit(digits[i]), low = hex_digit(digits[i + 1]);
            if (high < 0 || low < 0)
                return std::unexpected(fmt::format(
                    "'{}' is no hexadecimal byte; text that begins so is written as text:hex:…", digits.substr(i, 2)));
            bytes += static_cast<char>(high << 4 | low);
        }
    } else if (const auto wrong = unescape(text, bytes)) {
        return std::unexpected(fmt::format(
            "'{}' is no escape: there are \\t, \\n, \\r, \\0, \\xHH, and \\\\ for a backslash; in text:… there "
            "are none",
            *wrong));
    }
    if (bytes.size() > kMostRequest) return std::unexpected("the request is too long: " + too_long());
    return bytes;
}

int run_ask(const AskOptions& options) {
    auto code = ask_all(options);
    if (code) return *code;
    say("chainio ask: {}\n", diag::escaped(code.error().message));
    return code.error().exit_code;
}

}  // namespace chainio::tool
