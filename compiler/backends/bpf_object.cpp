#include "compiler/backends/bpf_object.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "compiler/backends/elf_file.h"

namespace chainio::backends {
namespace {

constexpr std::uint32_t kRelocData = 1, kRelocCall = 10;  // R_BPF_64_64, R_BPF_64_32

class Reader {
  public:
    explicit Reader(Elf* elf) : elf_(elf) {}

    std::expected<BpfObject, std::string> read() {
        GElf_Ehdr head;
        if (gelf_getehdr(elf_, &head) == nullptr || head.e_machine != EM_BPF)
            return std::unexpected("not a BPF object");
        if (elf_getshdrstrndx(elf_, &names_) != 0) return std::unexpected("the BPF object has no section names");
        read_sections();
        if (symtab_ == nullptr) return std::unexpected("the BPF object has no symbols");
        if (!read_functions()) return std::unexpected("a function of the BPF object is outside of its section");
        for (Elf_Scn* relocations : relocations_)
            if (!relocate(relocations)) return std::unexpected("a relocation of the BPF object is out of range");
        if (!resolve_local_calls()) return std::unexpected("a call of the BPF object leads nowhere");
        return std::move(object_);
    }

  private:
    std::string section_name(std::size_t index) const {
        GElf_Shdr head;
        Elf_Scn* section = elf_getscn(elf_, index);
        if (section == nullptr || gelf_getshdr(section, &head) == nullptr) return "";
        const char* name = elf_strptr(elf_, names_, head.sh_name);
        return name != nullptr ? name : "";
    }

    void read_sections() {
        for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf_, section)) != nullptr;) {
            GElf_Shdr head;
            if (gelf_getshdr(section, &head) == nullptr) continue;
            std::string name = section_name(elf_ndxscn(section));
            if (head.sh_type == SHT_SYMTAB) {
                symtab_ = section;
                symbol_names_ = head.sh_link;
            } else if (head.sh_type == SHT_REL && !name.starts_with(".rel.BTF") && !name.starts_with(".rel.debug")) {
                relocations_.push_back(section);
            } else if (head.sh_type == SHT_PROGBITS) {
                Elf_Data* data = elf_rawdata(section, nullptr);
                if (data == nullptr || data->d_buf == nullptr) continue;
                auto* bytes = static_cast<std::uint8_t*>(data->d_buf);
                object_.sections[name].assign(bytes, bytes + data->d_size);
            }
        }
    }

    template <class F>
    bool each_symbol(F&& f) const {
        Elf_Data* data = elf_getdata(symtab_, nullptr);
        if (data == nullptr) return false;
        for (int i = 0; i < static_cast<int>(data->d_size / sizeof(Elf64_Sym)); i++) {
            GElf_Sym symbol;
            if (gelf_getsym(data, i, &symbol) == nullptr || !f(symbol)) return false;
        }
        return true;
    }

    bool read_functions() {
        bool ok = each_symbol([&](const GElf_Sym& symbol) {
            if (GELF_ST_TYPE(symbol.st_info) != STT_FUNC) return true;
            BpfFunction function;
            const char* name = elf_strptr(elf_, symbol_names_, symbol.st_name);
            function.name = name != nullptr ? name : "";
            function.section = section_name(symbol.st_shndx);
            function.section_offset = symbol.st_value;
            auto section = object_.sections.find(function.section);
            if (section == object_.sections.end() || symbol.st_value > section->second.size() ||
                symbol.st_size > section->second.size() - symbol.st_value || symbol.st_size % sizeof(bpf_insn) != 0)
                return false;
            function.code.resize(symbol.st_size / sizeof(bpf_insn));
            std::memcpy(function.code.data(), section->second.data() + symbol.st_value, symbol.st_size);
            object_.functions.push_back(std::move(function));
            return true;
        });
        std::ranges::sort(object_.functions, {},
                          [](const BpfFunction& f) { return std::pair(f.section, f.section_offset); });
        return ok;
    }

    std::size_t function_at(const std::string& section, std::uint64_t offset) const {
        for (std::size_t i = 0; i < object_.functions.size(); i++) {
            const BpfFunction& f = object_.functions[i];
            if (f.section == section && offset >= f.section_offset &&
                offset - f.section_offset < f.code.size() * sizeof(bpf_insn))
                return i;
        }
        return object_.functions.size();
    }

    bool relocate(Elf_Scn* relocations) {
        GElf_Shdr head;
        Elf_Data* data = elf_getdata(relocations, nullptr);
        Elf_Data* symbols = elf_getdata(symtab_, nullptr);
        if (data == nullptr || symbols == nullptr || gelf_getshdr(relocations, &head) == nullptr) return false;
        std::string section = section_name(head.sh_info);
        for (int i = 0; i < static_cast<int>(data->d_size / sizeof(Elf64_Rel)); i++) {
            GElf_Rel relocation;
            GElf_Sym symbol;
            if (gelf_getrel(data, i, &relocation) == nullptr) return false;
            if (gelf_getsym(symbols, static_cast<int>(GELF_R_SYM(relocation.r_info)), &symbol) == nullptr) return false;
            std::size_t at = function_at(section, relocation.r_offset);
            if (at == object_.functions.size()) continue;  // data that nothing of ours relocates
            if (!apply(object_.functions[at], relocation, symbol)) return false;
        }
        return true;
    }

    bool apply(BpfFunction& function, const GElf_Rel& relocation, const GElf_Sym& symbol) {
        std::size_t at = (relocation.r_offset - function.section_offset) / sizeof(bpf_insn);
        std::string target = section_name(symbol.st_shndx);
        if (GELF_R_TYPE(relocation.r_info) == kRelocCall) {
            // One of the kernel's functions, which runs on the kernel's stack; marked as libbpf does when it loads the
            // object.
            if (symbol.st_shndx == SHN_UNDEF) {
                function.code[at].src_reg = BPF_PSEUDO_KFUNC_CALL;
                return true;
            }
            // Relative to a section symbol the immediate holds the distance, counted from the instruction behind the
            // call.
            std::uint64_t offset = symbol.st_value;
            if (GELF_ST_TYPE(symbol.st_info) == STT_SECTION)
                offset += static_cast<std::uint64_t>((function.code[at].imm + 1) * 8LL);
            function.calls[at] = function_at(target, offset);
            return function.calls[at] < object_.functions.size();
        }
        if (GELF_R_TYPE(relocation.r_info) != kRelocData || at + 1 >= function.code.size()) return false;
        const char* name = elf_strptr(elf_, symbol_names_, symbol.st_name);
        std::uint64_t addend = static_cast<std::uint32_t>(function.code[at].imm);
        function.references[at] = {target, name != nullptr ? name : "", symbol.st_value + addend};
        return true;
    }

    // Calls inside a section that the compiler resolved itself.
    bool resolve_local_calls() {
        for (BpfFunction& function : object_.functions) {
            for (std::size_t i = 0; i < function.code.size(); i++) {
                const bpf_insn& insn = function.code[i];
                if (insn.code != (BPF_JMP | BPF_CALL) || insn.src_reg != BPF_PSEUDO_CALL || function.calls.contains(i))
                    continue;
                std::uint64_t next = function.section_offset + (i + 1) * sizeof(bpf_insn);
                function.calls[i] = function_at(function.section, next + static_cast<std::uint64_t>(insn.imm * 8LL));
                if (function.calls[i] == object_.functions.size()) return false;
            }
        }
        return true;
    }

    Elf* elf_;
    std::size_t names_ = 0, symbol_names_ = 0;
    Elf_Scn* symtab_ = nullptr;
    std::vector<Elf_Scn*> relocations_;
    BpfObject object_;
};

constexpr std::uint32_t kWholeStack = 512;

// The bytes of its own frame that a function can touch. Addresses of the frame are followed from `rX = r10` through `rX
// += constant` until rX gets another value; an address that goes anywhere else counts as the whole stack.
std::uint32_t own_stack(const BpfFunction& function) {
    std::int64_t deepest = 0;
    std::int64_t frame_offset[11];
    bool is_frame[11] = {};
    is_frame[10] = true;
    frame_offset[10] = 0;
    for (std::size_t i = 0; i < function.code.size(); i++) {
        const bpf_insn& insn = function.code[i];
        std::uint8_t kind = BPF_CLASS(insn.code);
        if (kind == BPF_LDX && is_frame[insn.src_reg])
            deepest = std::min(deepest, frame_offset[insn.src_reg] + insn.off);
        if ((kind == BPF_STX || kind == BPF_ST) && is_frame[insn.dst_reg])
            deepest = std::min(deepest, frame_offset[insn.dst_reg] + insn.off);
        if (insn.code == (BPF_ALU64 | BPF_MOV | BPF_X) && is_frame[insn.src_reg]) {
            is_frame[insn.dst_reg] = true;
            frame_offset[insn.dst_reg] = frame_offset[insn.src_reg];
        } else if (insn.code == (BPF_ALU64 | BPF_ADD | BPF_K) && is_frame[insn.dst_reg] && insn.dst_reg != 10) {
            frame_offset[insn.dst_reg] += insn.imm;
            deepest = std::min(deepest, frame_offset[insn.dst_reg]);
        } else if (kind == BPF_ALU64 && is_frame[insn.dst_reg] && BPF_OP(insn.code) != BPF_MOV) {
            return kWholeStack;
        } else if ((kind == BPF_ALU64 || kind == BPF_ALU || kind == BPF_LDX || kind == BPF_LD) && insn.dst_reg != 10) {
            is_frame[insn.dst_reg] = false;
        }
    }
    return static_cast<std::uint32_t>(std::min<std::int64_t>(-deepest, kWholeStack));
}

}  // namespace

const BpfFunction* BpfObject::find(const std::string& name) const {
    auto found = std::ranges::find(functions, name, &BpfFunction::name);
    return found == functions.end() ? nullptr : &*found;
}

std::expected<BpfObject, std::string> read_bpf_object(std::span<const std::uint8_t> elf) {
    auto file = ElfFile::open(elf);
    if (!file) return std::unexpected(file.error());
    return Reader(file->get()).read();
}

std::vector<std::uint32_t> stack_depths(const BpfObject& object) {
    constexpr std::uint32_t round = 32;
    std::size_t count = object.functions.size();
    std::vector<std::uint32_t> own(count), deepest;
    for (std::size_t i = 0; i < count; i++)
        own[i] = (std::max(own_stack(object.functions[i]), 1u) + round - 1) / round * round;
    deepest = own;
    // Calls form no cycle, so as many passes as there are levels settle it; the kernel allows eight.
    for (std::size_t pass = 0; pass < count; pass++) {
        bool changed = false;
        for (std::size_t i = 0; i < count; i++) {
            for (const auto& [at, callee] : object.functions[i].calls) {
                std::uint32_t depth = own[i] + deepest[callee];
                changed |= depth > deepest[i];
                deepest[i] = std::max(deepest[i], depth);
            }
        }
        if (!changed) break;
    }
    return deepest;
}

}  // namespace chainio::backends
