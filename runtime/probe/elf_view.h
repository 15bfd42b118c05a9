// What probes want to know of a program or library: its USDT notes, functions and dependencies. The file is any bytes;
// whatever they say is checked against their number.
#pragma once
#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace chainio::probe {

struct UsdtNote {
    std::string_view provider{}, name{}, arguments{};
    std::uint64_t address = 0, base = 0, semaphore = 0;  // as written; base is where .stapsdt.base was at that time
};

struct Symbol {
    std::string_view name{}, version{};  // version: empty when there is none
    std::uint64_t address = 0, size = 0;
    bool hidden = false;    // not the default version of its name
    bool resolver = false;  // an IFUNC: its address is that of a function which chooses
};

// What is loaded of an executable segment, or a section.
struct Code {
    std::uint64_t address = 0;
    std::span<const std::uint8_t> bytes{};
};

class ElfView {
  public:
    // The bytes stay the caller's and outlive the view. The error says what is wrong with them, without a file's name.
    static std::expected<ElfView, std::string> read(std::span<const std::uint8_t> file);

    std::uint16_t machine() const { return machine_; }             // EM_X86_64 …
    std::string_view interpreter() const { return interpreter_; }  // of a dynamic program; else empty
    const std::vector<std::string_view>& needed() const { return needed_; }
    std::string_view runpath() const { return runpath_; }
    std::string_view rpath() const { return rpath_; }

    std::vector<UsdtNote> notes() const;
    std::vector<Symbol> functions() const;      // defined ones, of both symbol tables
    std::vector<std::uint64_t> labels() const;  // addresses of all defined symbols, whatever they are
    std::vector<Code> code() const;
    Code section(std::string_view name) const;  // empty when there is none of that name
    // Where .stapsdt.base is now; notes move by how far it is from UsdtNote::base.
    std::optional<std::uint64_t> notes_base() const;
    // The place in the file of what is loaded at `address`; in an executable segment when that is asked for.
    std::optional<std::uint64_t> offset_of(std::uint64_t address, bool executable) const;
    std::span<const std::uint8_t> bytes_at(std::uint64_t offset, std::size_t most) const;

  private:
    struct Segment {
        std::uint32_t type, flags;
        std::uint64_t offset, address, file_size;
    };
    struct Section {
        std::uint32_t name, type, link, info;
        std::uint64_t address, offset, size, entry;
    };
    explicit ElfView(std::span<const std::uint8_t> file) : file_(file) {}
    void read_segments();
    void read_sections();
    void read_dynamic();
    void read_notes(std::span<const std::uint8_t> section, std::vector<UsdtNote>& out) const;
    void read_symbols(const Section& table, std::vector<Symbol>& out) const;
    std::vector<std::string_view> version_names() const;
    std::span<const std::uint8_t> part(std::uint64_t offset, std::uint64_t size) const;
    std::span<const std::uint8_t> contents(const Section& section) const;
    std::string_view section_name(const Section& section) const;
    const Section* find(std::uint32_t type) const;

    std::span<const std::uint8_t> file_;
    std::uint16_t machine_ = 0;
    std::vector<Segment> segments_;
    std::vector<Section> sections_;
    std::uint16_t names_section_ = 0;
    std::string_view interpreter_, runpath_, rpath_;
    std::vector<std::string_view> needed_;
};

// A file's bytes, mapped.
class MappedFile {
  public:
    static std::expected<MappedFile, std::string> open(const std::string& path);  // the error names the file
    MappedFile(MappedFile&& other) noexcept;
    MappedFile& operator=(MappedFile&&) = delete;
    ~MappedFile();
    std::span<const std::uint8_t> bytes() const { return bytes_; }

  private:
    explicit MappedFile(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
    std::span<const std::uint8_t> bytes_;
};

}  // namespace chainio::probe
