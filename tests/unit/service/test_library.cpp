// The library's services over stores that `chainio store build` makes, whole and damaged: whatever is asked, the
// interpreter and native code say the same, byte for byte.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <functional>
#include <iterator>
#include <list>
#include <map>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/backends/backends.h"
#include "compiler/diag/diag.h"
#include "compiler/passes/lower.h"
#include "compiler/sema/check.h"
#include "compiler/syntax/parse.h"
#include "tests/support/soak.h"
#include "tests/unit/service/rig.h"
#include "tests/unit/store/store_test.h"
#include "tools/chainio/store/build.h"

namespace chainio::service {
namespace {

using test::Collected;
using test::Rig;
using Rng = std::mt19937_64;

std::string text_of(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

ir::Artifact lowered_from_library(const std::string& name) {
    diag::Sources sources;
    diag::Diagnostics diagnostics;
    std::list<std::unique_ptr<ast::File>> parsed;
    const auto find = [&](const std::string& path, FileId) {
        const std::string text = text_of(std::string(CHAINIO_LIBRARY "/") + path);
        parsed.push_back(syntax::parse_chain(sources.add(path, text), sources, diagnostics));
        syntax::print_chain(*parsed.back());
        return sema::Loaded{&*parsed.back(), path, {}};
    };
    auto checked = sema::check(*find(name, {}).file, name, find, {}, diagnostics);
    EXPECT_FALSE(diagnostics.has_errors()) << diag::render_text(diagnostics, sources, false);
    ir::Artifact artifact;
    if (!checked) return artifact;
    artifact.module = passes::lower(*checked);
    passes::run_passes(artifact.module);
    // As much as these stores can use.
    for (ir::FileClass& files : artifact.module.files) files.cache_bytes = 1 << 20;
    artifact.layout = ir::layout_of(artifact.module);
    EXPECT_EQ(ir::validate(artifact.module), "");
    return artifact;
}

struct Both {
    std::shared_ptr<const spec::Loaded> native, interpreted;
};

Both both_of(const std::string& name) {
    ir::Artifact artifact = lowered_from_library(name);
    auto built = backends::build_artifact(artifact, {});
    EXPECT_TRUE(built) << built.error();
    if (!built) return {};
    auto native = spec::Loaded::from_bytes(*built, name);
    auto interpreted = spec::Loaded::from_bytes(*built, name, {.use_native = false});
    EXPECT_TRUE(native && interpreted);
    EXPECT_TRUE((*native)->native()) << (*native)->interpreter_reason();
    EXPECT_FALSE((*interpreted)->native());
    return {*native, *interpreted};
}

// A store of `keys`, with values of every kind of length: none, in the item, at the border, in pieces.
class Stores : public store::StoreTest {
  protected:
    std::vector<std::uint8_t> made(const std::vector<std::string>& keys, Rng& rng) const {
        constexpr std::array<std::size_t, 8> kLengths = {0, 1, 5, 300, 4096, 64000, 64001, 123000};
        std::vector<store::Rows::Made> rows;
        for (const std::string& key : keys) {
            std::string value(kLengths[rng() % kLengths.size()], '\0');
            for (char& byte : value) byte = static_cast<char>(rng());
            rows.push_back({key, value, static_cast<std::uint32_t>(rng() >> rng() % 64)});
        }
        store::Rows source(rows);
        const auto built = store::build(source, {.path = path("a.store"), .seed = rng()});
        EXPECT_TRUE(built) << built.error().problems[0];
        const std::string bytes = read("a.store");
        return {bytes.begin(), bytes.end()};
    }
};

constexpr std::size_t kHeader = 4096;  // nothing behind the header lies before it

// What disks and careless hands do to a store that is open: bytes that are others, blocks that cannot be read, an end
// that is missing.
void damage(engine::test::FakeDisk& disk, Rng& rng) {
    std::vector<std::uint8_t>& bytes = disk.files[0];
    for (unsigned i = 0, count = 1 + rng() % 60; i < count; i++) {
        const std::size_t at = kHeader + rng() % (bytes.size() - kHeader);
        if (rng() % 2 == 0) {
            disk.bad.insert({0, at / 64});
        } else {
            bytes[at] ^= static_cast<std::uint8_t>(1 + rng() % 255);
        }
    }
    if (rng() % 4 == 0) bytes.resize(bytes.size() - rng() % (bytes.size() - kHeader));
}

struct Said {
    std::string text, heads;
    Ending ending = Ending::answered;
    bool closes = false, torn = false;
    std::uint64_t skips = 0;
    friend bool operator==(const Said&, const Said&) = default;
    friend std::ostream& operator<<(std::ostream& to, const Said& said) {
        return to << fmt::format("ending {}, closes {}, torn {}, skips {}, {} bytes, behind '{}': {}",
                                 static_cast<int>(said.ending), said.closes, said.torn, said.skips, said.text.size(),
                                 testing::PrintToString(said.heads), testing::PrintToString(said.text.substr(0, 2000)));
    }
};

// One server, which is asked one thing after the other: what is kept of its store's index stays.
class Asked {
  public:
    Asked(std::shared_ptr<const spec::Loaded> spec, const engine::test::FakeDisk& disk, const std::string& whole_header,
          std::uint64_t seed)
        : service_(spec->module().services[0]),
          rig_(spec, disk,
               {.in_flight = 32, .memory = 8 << 20, .seed = seed, .header = header_of(*spec, whole_header)}) {}
    Said ask(const std::string& text, bool udp) {
        Collected out;
        std::vector<std::uint32_t> ended;
        const std::uint32_t slot = rig_.start(text, out, udp ? service_.on_request_udp : service_.on_request_tcp);
        rig_.go_on(slot, ended);
        while (ended.empty() && !testing::Test::HasFatalFailure()) rig_.turn(ended);
        Said said{out.text,
                  "",
                  rig_.requests->ending(slot),
                  rig_.requests->closes(slot),
                  rig_.requests->is_torn(slot),
                  rig_.requests->skips(slot)};
        if (udp) said.heads = head(slot, 0, 1) + head(slot, 3, 5);
        rig_.requests->release(slot);
        return said;
    }
    // Reads of chains that were given up arrive later.
    void end() {
        std::vector<std::uint32_t> ended;
        while (rig_.requests->running() != 0 && !testing::Test::HasFailure()) rig_.turn(ended);
        EXPECT_TRUE(rig_.engine().leaks().empty());
    }

  private:
    static std::vector<std::uint64_t> header_of(const spec::Loaded& spec, const std::string& bytes) {
        auto fields = engine::run_header(
            spec, 0, {reinterpret_cast<const std::uint8_t*>(bytes.data()), spec.module().files[0].header_bytes});
        EXPECT_TRUE(fields) << fields.error();
        return fields.value_or(std::vector<std::uint64_t>{});
    }
    std::string head(std::uint32_t slot, std::uint64_t number, std::uint64_t count) {
        std::array<std::uint8_t, 64> out{};
        const auto length = rig_.requests->datagram_head(slot, service_.on_datagram, number, count, out);
        return length ? std::string(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(*length)) : "none ";
    }

    const ir::Service& service_;
    Rig rig_;
};

using Counts = std::map<std::string, unsigned>;

void count(const Said& said, Counts& counts) {
    counts["asked"]++;
    counts["malformed"] += said.ending == Ending::malformed;
    counts["failed"] += said.ending == Ending::failed;
    counts["torn"] += said.torn;
    counts["skips"] += said.skips != 0;
    for (const char* begin : {"VALUE ", "VA ", "HD", "EN\r", "END\r", "MN", "ERROR", "CLIENT_ERROR", "SERVER_ERROR"})
        counts[begin] += said.text.starts_with(begin);
    counts["long"] += said.text.size() > 65536;
}

// Asks both the same until enough was asked of enough stores.
void compare(const Both& specs, Rng& rng, Counts& counts, const std::function<std::vector<std::uint8_t>()>& store,
             const std::function<std::string(bool udp)>& request) {
    const std::uint64_t stores = tests::soak_count(6, 200), asks = tests::soak_count(300, 2000);
    for (std::uint64_t n = 0; n < stores && !testing::Test::HasFailure(); n++) {
        engine::test::FakeDisk disk;
        disk.files.push_back(store());
        const std::string header(disk.files[0].begin(), disk.files[0].begin() + kHeader);
        if (n % 2 != 0) damage(disk, rng);
        Asked native(specs.native, disk, header, rng()), interpreted(specs.interpreted, disk, header, rng());
        for (std::uint64_t i = 0; i < asks && !testing::Test::HasFailure(); i++) {
            const bool udp = specs.native->module().services[0].on_request_udp >= 0 && rng() % 3 == 0;
            const std::string text = request(udp);
            const Said said = interpreted.ask(text, udp);
            EXPECT_EQ(native.ask(text, udp), said)
                << fmt::format("CHAINIO_SEED={}, store {}, {}: ", tests::soak_seed(), n, udp ? "udp" : "tcp")
                << testing::PrintToString(text);
            count(said, counts);
        }
        native.end();
        interpreted.end();
    }
}

template <typename List>
auto one_of(const List& list, Rng& rng) {
    return list[rng() % std::size(list)];
}

std::string mutated(std::string text, Rng& rng) {
    constexpr std::string_view kBytes("\0\t\r\n 019-+vkqOZ\x7f\xff", 18);
    for (unsigned i = 0, count = 1 + rng() % 3; i < count; i++) {
        const std::size_t at = rng() % (text.size() + 1);
        if (rng() % 2 == 0 || at == text.size()) {
            text.insert(at, 1, one_of(kBytes, rng));
        } else if (rng() % 2 == 0) {
            text[at] = one_of(kBytes, rng);
        } else {
            text.erase(at, 1 + rng() % 4);
        }
    }
    return text;
}

std::vector<std::string> text_keys(Rng& rng) {
    std::vector<std::string> keys = {"k", std::string(250, 'k'), std::string(249, 'l')};
    for (unsigned i = 0; i < 60; i++) keys.push_back(fmt::format("key{}{}", i, std::string(rng() % 40, '.')));
    return keys;
}

// A word of a line: a key that is there, or what has a meaning somewhere, or is at a limit.
std::string word(const std::vector<std::string>& keys, Rng& rng) {
    constexpr const char* kWords[] = {"v",
                                      "k",
                                      "f",
                                      "c",
                                      "s",
                                      "t",
                                      "q",
                                      "O123",
                                      "O",
                                      "b",
                                      "u",
                                      "h",
                                      "L",
                                      "P",
                                      "Z",
                                      "0",
                                      "1",
                                      "-1",
                                      "+7",
                                      "4294967296",
                                      "9223372036854775808",
                                      "N0",
                                      "MI",
                                      "MS",
                                      "M+",
                                      "D5",
                                      "D-5",
                                      "T30",
                                      "64",
                                      "noreply",
                                      "-0",
                                      "18446744073709551616",
                                      "2147483646"};
    switch (rng() % 12) {
        case 0: return std::string(250, 'm');
        case 1: return std::string(251, 'm');
        case 2: return "O" + std::string(30 + rng() % 4, 'o');
        case 3: return "absent";
        case 4:
        case 5:
        case 6: return one_of(keys, rng);
        default: return one_of(kWords, rng);
    }
}

// What chance would seldom put together: flags of which none comes twice, and a command that brings data.
std::string sound(const std::vector<std::string>& keys, Rng& rng) {
    if (rng() % 4 == 0) {
        constexpr const char* kWrites[] = {"set", "add", "replace", "append", "prepend"};
        return fmt::format("{} {} {} 0 {}{}", one_of(kWrites, rng), one_of(keys, rng), rng() % 9, rng() % 5000,
                           rng() % 2 == 0 ? "" : " noreply");
    }
    constexpr const char* kOthers[] = {"absent", "YWJzZW50", "YSBi", "YQ=="};
    std::string flags = "vkfcstquOLPbhlINRC",
                text = "mg " + (rng() % 4 == 0 ? one_of(kOthers, rng) : one_of(keys, rng));
    std::shuffle(flags.begin(), flags.end(), rng);
    for (const char flag : flags.substr(0, rng() % 10))
        text += fmt::format(" {}{}", flag, std::string_view("ONRC").contains(flag) ? "123" : "");
    return text;
}

std::string loose(const std::vector<std::string>& keys, Rng& rng) {
    constexpr const char* kCommands[] = {"get", "gets", "mg",      "mn",     "version", "stats",   "quit",      "set",
                                         "add", "cas",  "ms",      "delete", "incr",    "touch",   "gat",       "gats",
                                         "md",  "ma",   "replace", "append", "decr",    "prepend", "flush_all", "me"};
    constexpr const char* kReads[] = {"get", "gets", "mg"};
    std::string text(rng() % 8 == 0 ? rng() % 5 : 0, ' ');
    text += rng() % 2 == 0 ? one_of(kReads, rng) : one_of(kCommands, rng);
    const bool many = rng() % 40 == 0;
    for (unsigned i = 0, count = many ? 50 + rng() % 30 : rng() % 8; i < count; i++)
        text += std::string(rng() % 10 == 0 ? 1 + rng() % 4 : 1, ' ') + word(keys, rng);
    return text;
}

std::string line(const std::vector<std::string>& keys, Rng& rng) {
    constexpr const char* kEnds[] = {"\r\n", "\n", "\r\n", ""};
    const std::string text = (rng() % 4 == 0 ? sound(keys, rng) : loose(keys, rng)) + one_of(kEnds, rng);
    return rng() % 5 == 0 ? mutated(text, rng) : text;
}

TEST_F(Stores, AreSaidTheSameOfByMemcached) {
    Rng rng(tests::soak_seed());
    std::vector<std::string> keys;
    Counts counts;
    compare(
        both_of("std/memcached.chain"), rng, counts, [&] { return made(keys = text_keys(rng), rng); },
        [&](bool udp) {
            std::string frame;
            for (const int byte : {static_cast<int>(rng() % 256), 7, 0, 0, 0, 1, 0, 0})
                frame += static_cast<char>(rng() % 60 == 0 ? rng() : static_cast<unsigned>(byte));
            if (rng() % 60 == 0) return frame.substr(0, rng() % 9);
            return (udp ? frame : "") + line(keys, rng);
        });
    for (const auto& [what, number] : counts) EXPECT_GT(number, 0u) << what;
}

// A binary key has 16 bytes, whatever they are.
TEST_F(Stores, AreSaidTheSameOfByKv) {
    Rng rng(tests::soak_seed());
    std::vector<std::string> keys;
    const auto any = [&](std::size_t length) {
        std::string text(length, '\0');
        for (char& byte : text) byte = static_cast<char>(rng());
        return text;
    };
    Counts counts;
    compare(
        both_of("std/kv.chain"), rng, counts,
        [&] {
            keys.clear();
            for (unsigned i = 0; i < 60; i++) keys.push_back(any(16));
            return made(keys, rng);
        },
        [&](bool udp) {
            const std::string text = (udp ? any(8) : "") + (rng() % 4 == 0 ? any(16) : one_of(keys, rng));
            return rng() % 8 == 0 ? text.substr(0, rng() % text.size()) : text + (udp ? any(rng() % 3) : "");
        });
    for (const char* what : {"asked", "malformed", "failed", "torn", "long"}) EXPECT_GT(counts[what], 0u) << what;
}

std::string big_endian(std::uint64_t value, unsigned bytes) {
    std::string text;
    while (bytes-- != 0) text += static_cast<char>(value >> 8 * bytes);
    return text;
}

TEST_F(Stores, AreSaidTheSameOfByMemcachedsBinaryProtocol) {
    Rng rng(tests::soak_seed());
    std::vector<std::string> keys;
    Counts counts;
    compare(
        both_of("std/memcached_binary.chain"), rng, counts, [&] { return made(keys = text_keys(rng), rng); },
        [&](bool) {
            const std::string key = word(keys, rng), extras = std::string(rng() % 6 == 0 ? rng() % 20 : 0, 'x');
            const std::uint64_t opcode = rng() % 4 == 0 ? rng() % 0x22 : rng() % 2 == 0 ? 0x00 : 0x0c + rng() % 2;
            const std::size_t body = key.size() + extras.size() + (rng() % 8 == 0 ? rng() % 300 : 0);
            const std::string text = "\x80" + big_endian(opcode, 1) + big_endian(key.size(), 2) +
                                     big_endian(extras.size(), 1) + std::string(3, '\0') + big_endian(body, 4) +
                                     big_endian(rng(), 4) + std::string(8, '\0') + extras + key;
            return rng() % 8 == 0 ? mutated(text, rng) : text;
        });
    for (const char* what : {"asked", "malformed", "failed", "torn", "skips", "long"})
        EXPECT_GT(counts[what], 0u) << what;
}

TEST_F(Stores, AreSaidTheSameOfByHttp) {
    Rng rng(tests::soak_seed());
    std::vector<std::string> keys;
    Counts counts;
    compare(
        both_of("std/http_store.chain"), rng, counts, [&] { return made(keys = text_keys(rng), rng); },
        [&](bool) {
            constexpr const char* kMethods[] = {"GET", "GET", "GET", "HEAD", "POST", "get"};
            constexpr const char* kHeaders[] = {
                "Connection: close",          "connection: Keep-Alive", "Content-Length: 5",
                "content-length:\t 70",       "Content-Length : 5",     "Content-Length: x",
                "If-None-Match: \"7\"",       "Expect: 100-continue",   "X: y",
                "Transfer-Encoding: chunked", "If-None-Match: *",       "If-None-Match: \"8\", W/\"7\""};
            std::string text = fmt::format("{} /{}{} HTTP/1.{}\r\n", one_of(kMethods, rng), word(keys, rng),
                                           rng() % 8 == 0 ? "?q" : "", rng() % 5 == 0 ? 0 : 1);
            for (unsigned i = 0, count = rng() % 8 == 0 ? rng() % 3 : 1; i < count; i++) text += "Host: x\r\n";
            for (unsigned i = 0, count = rng() % 4; i < count; i++) text += std::string(one_of(kHeaders, rng)) + "\r\n";
            return (rng() % 8 == 0 ? mutated(text, rng) : text) + (rng() % 30 == 0 ? "" : "\r\n");
        });
    for (const char* what : {"asked", "malformed", "failed", "torn", "skips", "long"})
        EXPECT_GT(counts[what], 0u) << what;
}

TEST_F(Stores, AreSaidTheSameOfByRedis) {
    Rng rng(tests::soak_seed());
    std::vector<std::string> keys;
    Counts counts;
    compare(
        both_of("std/redis.chain"), rng, counts, [&] { return made(keys = text_keys(rng), rng); },
        [&](bool) {
            constexpr const char* kCommands[] = {"GET",  "get",  "MGET",   "EXISTS", "STRLEN", "TYPE",
                                                 "PTTL", "PING", "SELECT", "SET",    "INFO",   "ECHO",
                                                 "nope", "QUIT", "CLIENT", "HELLO"};
            std::vector<std::string> words = {one_of(kCommands, rng)};
            for (unsigned i = 0, count = rng() % 2 == 0 ? 1 : rng() % 18; i < count; i++)
                words.push_back(word(keys, rng));
            std::string text = fmt::format("*{}\r\n", words.size());
            for (const std::string& each : words) text += fmt::format("${}\r\n{}\r\n", each.size(), each);
            if (rng() % 20 == 0) text = "ping\r\n";
            return rng() % 8 == 0 ? mutated(text, rng) : text;
        });
    for (const char* what : {"asked", "malformed", "failed", "torn", "long"}) EXPECT_GT(counts[what], 0u) << what;
}

}  // namespace
}  // namespace chainio::service
