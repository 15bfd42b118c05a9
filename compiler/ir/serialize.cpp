// The serialised form: a 24-byte header (magic, version, length, checksum), then what describe.h says. Integers are
// little-endian and of fixed width; a bool is one byte, 0 or 1; an enum one byte; a string or vector its 32-bit count
// and then its elements; a statement's operation is one byte with its place in Stmt's variant, then its members.
#include <fmt/format.h>
#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "compiler/ir/artifact.h"
#include "compiler/ir/describe.h"
#include "compiler/ir/hash.h"

namespace chainio::ir {
namespace {

constexpr char kMagic[8] = {'C', 'I', 'O', 'S', 'P', 'E', 'C', '\0'};
constexpr std::size_t kHeaderBytes = 24;
constexpr std::uint32_t kMaxStatements = 1u << 20;
constexpr std::size_t kMostReserved = 256;  // elements

template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};
using Node = decltype(Stmt::node);

class Writer {
  public:
    template <class... T>
    void operator()(const T&... fields) {
        (put(fields), ...);
    }
    std::vector<std::uint8_t> bytes;

  private:
    template <class T>
    void put(const T& v) {
        if constexpr (std::is_enum_v<T>) {
            integer(std::to_underlying(v));
        } else if constexpr (std::is_same_v<T, bool>) {
            integer(static_cast<std::uint8_t>(v ? 1 : 0));
        } else if constexpr (std::is_integral_v<T>) {
            integer(static_cast<std::make_unsigned_t<T>>(v));
        } else if constexpr (IsVector<T>::value || std::is_same_v<T, std::string>) {
            integer(static_cast<std::uint32_t>(v.size()));
            for (const auto& element : v) put(element);
        } else if constexpr (std::is_same_v<T, Node>) {
            integer(static_cast<std::uint8_t>(v.index()));
            std::visit([&](const auto& n) { describe(*this, n); }, v);
        } else {
            describe(*this, v);
        }
    }
    template <class U>
    void integer(U v) {
        for (std::size_t i = 0; i < sizeof(U); i++)
            bytes.push_back(static_cast<std::uint8_t>(static_cast<std::uint64_t>(v) >> (8 * i)));
    }
};

// After the first error every read gives zero and every count is zero, so that describe() ends by itself.
class Reader {
  public:
    explicit Reader(std::span<const std::uint8_t> bytes) : rest_(bytes) {}
    template <class... T>
    void operator()(T&... fields) {
        (get(fields), ...);
    }
    const std::string& error() const { return error_; }
    bool at_end() const { return rest_.empty(); }

  private:
    template <class T>
    void get(T& v) {
        if constexpr (std::is_enum_v<T>) {
            enumeration(v);
        } else if constexpr (std::is_same_v<T, bool>) {
            auto byte = integer<std::uint8_t>();
            if (byte > 1) fail("a flag that is neither 0 nor 1");
            v = byte == 1;
        } else if constexpr (std::is_integral_v<T>) {
            v = static_cast<T>(integer<std::make_unsigned_t<T>>());
        } else if constexpr (IsVector<T>::value || std::is_same_v<T, std::string>) {
            list(v);
        } else if constexpr (std::is_same_v<T, Node>) {
            statement(v, std::make_index_sequence<std::variant_size_v<Node>>());
        } else {
            describe(*this, v);
        }
    }
    template <class E>
    void enumeration(E& v) {
        auto raw = integer<std::underlying_type_t<E>>();
        if (raw > std::to_underlying(kLast<E>)) return fail("an enum value that is not known");
        v = static_cast<E>(raw);
    }
    void list(std::string& v) {
        const auto count = integer<std::uint32_t>();
        if (count > rest_.size()) return fail("a count above the bytes that are left");
        v.assign(rest_.begin(), rest_.begin() + count);
        rest_ = rest_.subspan(count);
    }
    template <class V>
    void list(V& v) {
        const auto count = integer<std::uint32_t>();
        if (count > rest_.size()) return fail("a count above the bytes that are left");
        v.clear();
        // An element is larger in memory than in the data, whose counts may lie.
        v.reserve(std::min<std::size_t>(count, kMostReserved));
        for (std::uint32_t i = 0; i < count && error_.empty(); i++) get(v.emplace_back());
    }
    template <std::size_t... I>
    void statement(Node& node, std::index_sequence<I...>) {
        auto tag = integer<std::uint8_t>();
        if (tag >= sizeof...(I)) return fail("an operation that is not known");
        if (++statements_ > kMaxStatements) return fail("too many statements");
        if (depth_ > kMaxDepth + 1) return fail("statements nested too deeply");
        depth_++;
        auto make = [&]<std::size_t J>() {
            if (tag == J) describe(*this, node.template emplace<J>());
        };
        (make.template operator()<I>(), ...);
        depth_--;
    }
    template <class U>
    U integer() {
        if (!error_.empty() || rest_.size() < sizeof(U)) {
            fail("the data ends too early");
            return 0;
        }
        std::uint64_t v = 0;
        for (std::size_t i = 0; i < sizeof(U); i++) v |= std::uint64_t{rest_[i]} << (8 * i);
        rest_ = rest_.subspan(sizeof(U));
        return static_cast<U>(v);
    }
    void fail(std::string_view what) {
        if (error_.empty()) error_ = what;
        rest_ = {};
    }

    std::span<const std::uint8_t> rest_;
    std::string error_;
    std::uint32_t statements_ = 0, depth_ = 0;
};

void put_u32(std::vector<std::uint8_t>& out, std::size_t at, std::uint32_t v) {
    for (std::size_t i = 0; i < 4; i++) out[at + i] = static_cast<std::uint8_t>(v >> (8 * i));
}
std::uint32_t get_u32(std::span<const std::uint8_t> in, std::size_t at) {
    std::uint32_t v = 0;
    for (std::size_t i = 0; i < 4; i++) v |= std::uint32_t{in[at + i]} << (8 * i);
    return v;
}

bool same_layout(const IoLayout& a, const IoLayout& b) {
    Writer left, right;
    left(a);
    right(b);
    return left.bytes == right.bytes;
}

}  // namespace

std::vector<std::uint8_t> serialize(const Artifact& artifact) {
    Writer writer;
    writer.bytes.resize(kHeaderBytes);
    writer(artifact);
    auto& bytes = writer.bytes;
    std::memcpy(bytes.data(), kMagic, sizeof(kMagic));
    put_u32(bytes, 8, kFormatVersion);
    put_u32(bytes, 12, static_cast<std::uint32_t>(bytes.size()));
    put_u32(bytes, 16, crc32c(std::span(bytes).subspan(kHeaderBytes)));
    return std::move(bytes);
}

std::expected<Artifact, std::string> deserialize(std::span<const std::uint8_t> bytes, Programs programs) {
    if (bytes.size() < kHeaderBytes || std::memcmp(bytes.data(), kMagic, sizeof(kMagic)) != 0)
        return std::unexpected("this is no ChainIO specification (wrong magic number)");
    if (std::uint32_t version = get_u32(bytes, 8); version != kFormatVersion)
        return std::unexpected(
            fmt::format("the specification has format version {}, this program reads {}; compile it again", version,
                        kFormatVersion));
    if (bytes.size() > kMaxSpecBytes)
        return std::unexpected(
            fmt::format("the specification has {} bytes; at most {} are read; split the spec into "
                        "several artifacts",
                        bytes.size(), kMaxSpecBytes));
    if (get_u32(bytes, 12) != bytes.size())
        return std::unexpected(fmt::format("the specification says {} bytes and has {}; the file is damaged",
                                           get_u32(bytes, 12), bytes.size()));
    auto payload = bytes.subspan(kHeaderBytes);
    if (get_u32(bytes, 16) != crc32c(payload) || get_u32(bytes, 20) != 0)
        return std::unexpected("the specification's checksum does not match; the file is damaged");
    Reader reader(payload);
    Artifact artifact;
    reader(artifact);
    if (!reader.error().empty()) return std::unexpected("the specification is damaged: " + reader.error());
    if (!reader.at_end()) return std::unexpected("the specification is damaged: bytes after its end");
    if (artifact.bounds.size() != artifact.module.programs.size())
        return std::unexpected("the specification is damaged: bounds for other programs");
    if (std::string problem = validate(artifact.module, programs); !problem.empty())
        return std::unexpected("the specification is not valid: " + problem);
    if (!same_layout(artifact.layout, layout_of(artifact.module)))
        return std::unexpected("the specification is not valid: another memory layout");
    return artifact;
}

}  // namespace chainio::ir
