// libelf over bytes in memory.
#pragma once
#include <gelf.h>
#include <libelf.h>

#include <cstdint>
#include <expected>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace chainio::backends {

class ElfFile {
  public:
    // The bytes have to outlive the object.
    static std::expected<ElfFile, std::string> open(std::span<const std::uint8_t> bytes);
    ElfFile(ElfFile&& other) noexcept : elf_(std::exchange(other.elf_, nullptr)) {}
    ElfFile& operator=(ElfFile&&) = delete;
    ~ElfFile() { elf_end(elf_); }
    Elf* get() const { return elf_; }

  private:
    explicit ElfFile(Elf* elf) : elf_(elf) {}
    Elf* elf_;
};

struct NewSection {
    std::string name;
    std::vector<std::uint8_t> bytes;
};
// The same ELF with sections added at its end, neither loaded nor executable, and without the DWARF that only BTF was
// made from.
std::expected<std::vector<std::uint8_t>, std::string> add_sections(std::span<const std::uint8_t> elf,
                                                                   std::span<const NewSection> sections);

// The bytes of a section; empty when there is none.
std::span<const std::uint8_t> find_section(const ElfFile&, const std::string& name);

}  // namespace chainio::backends
