#include "tests/bench/rings/protocol.h"

#include <charconv>
#include <cstring>
#include <string_view>

namespace chainio::bench_rings {
namespace {

using bench_kv::kFrame;
using bench_kv::kKeyBytes;

bool same(std::span<const char> a, std::span<const char> b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size()) == 0;
}

std::size_t put(std::string_view text, char* out) {
    std::memcpy(out, text.data(), text.size());
    return text.size();
}

// The replies of items that are asked for again are made once, so that verifying costs a comparison.
class Items : public Protocol {
  public:
    explicit Items(const Load& load) : items_(load.items), known_(load.hot > 0 ? load.items.count : 0) {}

  protected:
    virtual std::size_t write_text(std::uint32_t number, char* out) const = 0;
    std::span<const char> text(std::uint32_t number) {
        std::vector<char>& text = known_.empty() ? one_ : known_[number];
        if (!text.empty() && (!known_.empty() || of_one_ == number)) return text;
        text.resize(kMostReply);
        text.resize(write_text(number, text.data()));
        of_one_ = number;
        return text;
    }
    std::size_t write_value(std::uint32_t number, char* out) const {
        bench_kv::fill_value(number, {out, items_.value_bytes});
        return items_.value_bytes;
    }
    bench_kv::Items items_;

  private:
    std::vector<std::vector<char>> known_;
    std::vector<char> one_;
    std::uint32_t of_one_ = 0;
};

// Datagrams and messages of rings have memcached's frame in front.
class Memcached final : public Items {
  public:
    explicit Memcached(const Load& load) : Items(load), frame_(load.way == "udp" || load.way == "ring" ? kFrame : 0) {}
    std::size_t write(const Question& question, char* out) const override {
        if (frame_ != 0) write_frame(question.tag, out);
        std::size_t length = frame_ + put("get ", out + frame_);
        bench_kv::write_key(question.number, out + length);
        length += kKeyBytes;
        return length + put("\r\n", out + length);
    }
    std::size_t reply_bytes(const Question& question) override { return frame_ + text(question.number).size(); }
    bool is_reply(const Question& question, std::span<const char> reply) override {
        std::array<char, kFrame> frame{};
        if (frame_ != 0) write_frame(question.tag, frame.data());
        return reply.size() > frame_ && std::memcmp(reply.data(), frame.data(), frame_) == 0 &&
               same(reply.subspan(frame_), text(question.number));
    }
    std::optional<std::uint16_t> tag_of(std::span<const char> reply) const override {
        if (reply.size() < kFrame) return std::nullopt;
        return bench_kv::id_of(reply);
    }

  private:
    static void write_frame(std::uint16_t tag, char* out) {
        const std::array<char, kFrame> frame{static_cast<char>(tag >> 8), static_cast<char>(tag), 0, 0, 0, 1, 0, 0};
        std::memcpy(out, frame.data(), kFrame);
    }
    std::size_t write_text(std::uint32_t number, char* out) const override {
        std::size_t length = bench_kv::write_head(number, items_.value_bytes, out);
        length += write_value(number, out + length);
        return length + put({bench_kv::kTail, bench_kv::kTailBytes}, out + length);
    }
    std::size_t frame_;
};

class Redis final : public Items {
  public:
    using Items::Items;
    std::size_t write(const Question& question, char* out) const override {
        std::size_t length = put("*2\r\n$3\r\nGET\r\n$10\r\n", out);
        bench_kv::write_key(question.number, out + length);
        length += kKeyBytes;
        return length + put("\r\n", out + length);
    }
    std::size_t reply_bytes(const Question& question) override { return text(question.number).size(); }
    bool is_reply(const Question& question, std::span<const char> reply) override {
        return same(reply, text(question.number));
    }
    std::optional<std::uint16_t> tag_of(std::span<const char>) const override { return std::nullopt; }

  private:
    std::size_t write_text(std::uint32_t number, char* out) const override {
        out[0] = '$';
        char* end = std::to_chars(out + 1, out + 16, items_.value_bytes).ptr;
        auto length = static_cast<std::size_t>(end - out);
        length += put("\r\n", out + length);
        length += write_value(number, out + length);
        return length + put("\r\n", out + length);
    }
};

// Of who reads the items itself: their numbers as they lie in memory, and the values.
class Value final : public Items {
  public:
    using Items::Items;
    std::size_t write(const Question& question, char* out) const override {
        std::memcpy(out, &question.number, sizeof question.number);
        return sizeof question.number;
    }
    std::size_t reply_bytes(const Question&) override { return items_.value_bytes; }
    bool is_reply(const Question& question, std::span<const char> reply) override {
        return same(reply, text(question.number));
    }
    std::optional<std::uint16_t> tag_of(std::span<const char>) const override { return std::nullopt; }

  private:
    std::size_t write_text(std::uint32_t number, char* out) const override { return write_value(number, out); }
};

class Fixed final : public Protocol {
  public:
    std::size_t write(const Question& question, char* out) const override {
        const std::array<char, kNumberBytes> number{0, 0, static_cast<char>(question.tag >> 8),
                                                    static_cast<char>(question.tag)};
        std::memcpy(out, number.data(), kNumberBytes);
        return kNumberBytes;
    }
    std::size_t reply_bytes(const Question&) override { return kNumberBytes + kFixedBytes; }
    bool is_reply(const Question& question, std::span<const char> reply) override {
        std::array<char, kNumberBytes + kFixedBytes> want;
        write(question, want.data());
        std::memcpy(want.data() + kNumberBytes, kFixed, kFixedBytes);
        return same(reply, want);
    }
    std::optional<std::uint16_t> tag_of(std::span<const char> reply) const override {
        if (reply.size() < kNumberBytes) return std::nullopt;
        return bench_kv::id_of(reply.subspan(2));
    }
};

}  // namespace

std::unique_ptr<Protocol> protocol_of(const Load& load) {
    const bool reads = load.way == "pread" || load.way == "uring", streams = load.way == "unix" || load.way == "tcp";
    if (reads != (load.asks == "value")) return nullptr;
    if (reads) return std::make_unique<Value>(load);
    if (load.asks == "memcached") return std::make_unique<Memcached>(load);
    if (load.asks == "redis" && streams) return std::make_unique<Redis>(load);
    if (load.asks == "fixed") return std::make_unique<Fixed>();
    return nullptr;
}

}  // namespace chainio::bench_rings
