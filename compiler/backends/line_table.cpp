#include "compiler/backends/line_table.h"

#include <algorithm>
#include <cstring>
#include <deque>

namespace chainio::backends {
namespace {

// Reads 32-bit numbers without going past the end.
class Words {
  public:
    explicit Words(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
    std::uint32_t at(std::size_t offset) const {
        std::uint32_t value = 0;
        if (offset <= bytes_.size() && bytes_.size() - offset >= sizeof value)
            std::memcpy(&value, bytes_.data() + offset, sizeof value);
        return value;
    }

  private:
    std::span<const std::uint8_t> bytes_;
};

// The string section of a BTF blob.
class Strings {
  public:
    explicit Strings(std::span<const std::uint8_t> btf) {
        Words words(btf);
        std::size_t start = std::size_t{words.at(4)} + words.at(16), size = words.at(20);
        if (start <= btf.size() && size <= btf.size() - start) text_ = btf.subspan(start, size);
    }
    std::string at(std::uint32_t offset) const {
        if (offset >= text_.size()) return "";
        auto* begin = reinterpret_cast<const char*>(text_.data()) + offset;
        return {begin, strnlen(begin, text_.size() - offset)};
    }

  private:
    std::span<const std::uint8_t> text_;
};

}  // namespace

// struct btf_ext_header, then for each section a header and its records {instruction, file, text, line << 10 | column}.
LineTable::LineTable(const BpfObject& object) {
    auto btf = object.sections.find(".BTF"), ext = object.sections.find(".BTF.ext");
    if (btf == object.sections.end() || ext == object.sections.end()) return;
    Strings strings(btf->second);
    Words words(ext->second);
    std::size_t at = std::size_t{words.at(4)} + words.at(16), end = std::min(at + words.at(20), ext->second.size());
    std::size_t record = words.at(at);
    if (record < 16) return;
    for (at += 4; at + 8 <= end;) {
        std::string section = strings.at(words.at(at));
        std::uint32_t count = words.at(at + 4);
        at += 8;
        for (std::uint32_t i = 0; i < count && at + record <= end; i++, at += record) {
            std::string file = strings.at(words.at(at + 4));
            if (file.starts_with("./")) file.erase(0, 2);
            lines_[section][words.at(at)] = {file, words.at(at + 12) >> 10};
        }
    }
}

SourceLine LineTable::find(const std::string& section, std::uint64_t byte_offset) const {
    auto table = lines_.find(section);
    if (table == lines_.end()) return {};
    auto after = table->second.upper_bound(byte_offset);
    return after == table->second.begin() ? SourceLine{} : std::prev(after)->second;
}

// libbpf copies a function as it is and only sets the distances of its calls, so the calls lead from one function to
// the next.
std::map<std::size_t, std::size_t> placed_functions(const BpfObject& object, const std::string& entry,
                                                    std::span<const bpf_insn> loaded) {
    std::map<std::size_t, std::size_t> placed;
    const BpfFunction* main = object.find(entry);
    if (main == nullptr) return placed;
    std::deque<std::pair<std::size_t, std::size_t>> work = {
        {0, static_cast<std::size_t>(main - object.functions.data())}};
    while (!work.empty()) {
        auto [start, number] = work.front();
        work.pop_front();
        if (!placed.emplace(start, number).second) continue;
        for (const auto& [at, callee] : object.functions[number].calls) {
            if (start + at >= loaded.size()) continue;
            std::size_t target =
                start + at + 1 + static_cast<std::size_t>(static_cast<std::int64_t>(loaded[start + at].imm));
            if (target < loaded.size()) work.emplace_back(target, callee);
        }
    }
    return placed;
}

}  // namespace chainio::backends
