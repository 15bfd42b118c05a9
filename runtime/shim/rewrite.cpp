// Replaces the system calls of the program that was started by jumps, before its first instruction. All of them or
// none: what is seen of a descriptor would be wrong if only some of what happens to it was seen.
#include "runtime/shim/rewrite.h"

#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "runtime/shim/child.h"
#include "runtime/shim/next.h"
#include "runtime/shim/shim.h"

namespace chainio::shim {
namespace {

// A descriptor for a few calls.
class Opened {
  public:
    explicit Opened(long fd) : fd_(static_cast<int>(fd)) {}
    Opened(const Opened&) = delete;
    Opened& operator=(const Opened&) = delete;
    ~Opened() {
        if (*this) raw_call(SYS_close, fd_);
    }
    int get() const { return fd_; }
    explicit operator bool() const { return fd_ >= 0; }

  private:
    int fd_;
};

// Some memory of the kernel's.
struct Memory {
    explicit Memory(long bytes, long at = 0, int fd = -1)
        : size(bytes),
          place(raw_call(SYS_mmap, at, bytes, fd < 0 ? PROT_READ | PROT_WRITE : PROT_READ,
                         MAP_PRIVATE | (fd < 0 ? MAP_ANONYMOUS : 0) | (at != 0 ? MAP_FIXED_NOREPLACE : 0), fd, 0)) {}
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    ~Memory() {
        if (*this) raw_call(SYS_munmap, place, size);
    }
    explicit operator bool() const { return !failed(place); }
    std::uint8_t* bytes() const { return reinterpret_cast<std::uint8_t*>(place); }
    void keep() { place = -1; }

    long size, place;
};

// Where the program lies.
struct Program {
    std::uint64_t base = 0;
    const ElfW(Phdr) * segments = nullptr;
    unsigned count = 0;
};

int first_object(dl_phdr_info* info, std::size_t, void* to) {
    *static_cast<Program*>(to) = {info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum};
    return 1;
}

bool in_code(const Program& program, const Site& site) {
    for (unsigned i = 0; i < program.count; ++i) {
        const auto& segment = program.segments[i];
        if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X) || site.address < segment.p_vaddr) continue;
        const std::uint64_t at = site.address - segment.p_vaddr;
        if (at < segment.p_memsz && site.bytes <= segment.p_memsz - at) return true;
    }
    return false;
}

bool good(const Program& program, const Site& site) {
    constexpr std::uint8_t kCall[] = {0x0f, 0x05};
    if (site.bytes < kJumpBytes || site.bytes > kMaxWindow || site.call_at + sizeof kCall > site.bytes) return false;
    if (std::memcmp(site.code + site.call_at, kCall, sizeof kCall) != 0 || !in_code(program, site)) return false;
    return std::memcmp(reinterpret_cast<const void*>(program.base + site.address), site.code, site.bytes) == 0;
}

// ---- chainio-sites ----

struct Helper {
    const char* path;
    int out;
};

constexpr int kNoFile = 126, kNoProgram = 127;

// In a child, which opens the program's file: to close it here would end the record locks that a process has kept on it
// when it became this program. The child has its own memory: proot, which keeps the heaps of those whose processes it
// watches, takes one that shares it and executes another program for the end of its parent's.
int become_helper(void* argument) {
    const auto& helper = *static_cast<const Helper*>(argument);
    const long file = raw_call(SYS_openat, AT_FDCWD, word("/proc/self/exe"), O_RDONLY);
    if (failed(file)) return kNoFile;
    // Without its own input and output it would take the program's.
    if (file != 0 && failed(raw_call(SYS_dup3, file, 0, 0))) return kNoFile;
    if (file > 1) raw_call(SYS_close, file);
    if (failed(raw_call(SYS_dup3, helper.out, 1, 0))) return kNoProgram;
    const char* arguments[] = {helper.path, nullptr};
    const char* environment[] = {nullptr};
    raw_call(SYS_execve, word(helper.path), word(arguments), word(environment));
    return kNoProgram;
}

// Null when it has said what there is to say.
const char* run_helper(Helper helper) {
    constexpr long kStack = 64 * 1024;
    const Memory stack(kStack);
    const int result = stack ? ask_child(become_helper, &helper, stack.bytes() + kStack, 0) : -1;
    if (result == 0) return nullptr;
    return result == kNoFile ? "its file cannot be read" : "chainio-sites does not run";
}

// A number that is none of the first three, which the child's own input and output become.
long moved_up(long fd) {
    constexpr long kFirst = 3;
    if (failed(fd) || fd >= kFirst) return fd;
    const long other = raw_call(SYS_fcntl, fd, F_DUPFD_CLOEXEC, kFirst);
    raw_call(SYS_close, fd);
    return other;
}

// ---- the new code ----

// Where the program's segments begin. Its heap grows behind their end, so new code goes in front.
std::uint64_t lowest(const Program& program) {
    std::uint64_t found = ~std::uint64_t{0};
    for (unsigned i = 0; i < program.count; ++i)
        if (program.segments[i].p_type == PT_LOAD && program.segments[i].p_vaddr < found)
            found = program.segments[i].p_vaddr;
    return program.base + found;
}

constexpr std::uint64_t kPage = 4096;
std::uint64_t whole_pages(std::uint64_t bytes) { return (bytes + kPage - 1) & ~(kPage - 1); }

// The nearest free place in front of the program, in reach of its jumps.
long place_in_front(const Program& program, long bytes) {
    constexpr std::uint64_t kStep = 64 * 1024, kReach = std::uint64_t{1} << 30;
    const std::uint64_t begin = lowest(program) & ~(kPage - 1);
    for (std::uint64_t back = whole_pages(static_cast<std::uint64_t>(bytes)); back < kReach && back < begin;
         back += kStep) {
        const Memory tried(bytes, static_cast<long>(begin - back));
        if (tried && tried.place == static_cast<long>(begin - back)) return tried.place;
    }
    return 0;
}

// Writes past the protection of the program's code, which stays as it is: no page is ever both written and executed.
class Patcher {
  public:
    Patcher() : memory_(raw_call(SYS_openat, AT_FDCWD, word("/proc/self/mem"), O_RDWR | O_CLOEXEC)) {}
    bool write(std::uint64_t at, const std::uint8_t* bytes, unsigned count) const {
        return memory_ && raw_call(SYS_pwrite64, memory_.get(), word(bytes), count, static_cast<long>(at)) == count;
    }

  private:
    Opened memory_;
};

bool patch(const Program& program, const Site& site, const std::uint8_t* to, const Patcher& patcher) {
    constexpr std::uint8_t kTrap = 0xcc;
    const std::uint64_t at = program.base + site.address;
    std::uint8_t jump[kMaxWindow];
    std::memset(jump, kTrap, sizeof jump);
    const auto distance =
        static_cast<std::int32_t>(reinterpret_cast<std::int64_t>(to) - static_cast<std::int64_t>(at + kJumpBytes));
    jump[0] = 0xe9;
    std::memcpy(jump + 1, &distance, sizeof distance);
    return patcher.write(at, jump, site.bytes);
}

const char* replace_all(const Program& program, const Site* sites, unsigned count) {
    std::size_t bytes = 0;
    for (unsigned i = 0; i < count; ++i) {
        if (!good(program, sites[i])) return "its code in memory is not what its file says";
        bytes += site_code_bytes(sites[i]);
    }
    bytes = whole_pages(bytes);
    const long place = place_in_front(program, static_cast<long>(bytes));
    Memory code(static_cast<long>(bytes), place);
    if (place == 0 || !code || code.place != place) return "there is no room near its code";
    std::uint8_t* at = code.bytes();
    for (unsigned i = 0; i < count; at += site_code_bytes(sites[i++]))
        if (!make_site_code(sites[i], program.base + sites[i].address, table.slots(), at))
            return "there is no room near its code";
    if (failed(raw_call(SYS_mprotect, code.place, code.size, PROT_READ | PROT_EXEC)))
        return "new code is not allowed to it";
    const Patcher patcher;
    at = code.bytes();
    for (unsigned i = 0; i < count; at += site_code_bytes(sites[i++])) {
        if (patch(program, sites[i], at, patcher)) continue;
        for (unsigned done = 0; done < i; ++done)
            patcher.write(program.base + sites[done].address, sites[done].code, sites[done].bytes);
        return "its code cannot be written";
    }
    code.keep();
    return nullptr;
}

// Null when all is well, also when there is nothing to replace.
const char* take(Region& region, const Program& program, const SiteList& list, const Site* sites) {
    static constinit char reason[kMaxReason];
    if (list.refused[0] != 0) {
        std::memcpy(reason, list.refused, sizeof reason - 1);
        return reason;
    }
    Rewriting& counts = region.rewriting;
    counts.unknown += list.unknown;
    if (list.count == 0) return list.unknown == 0 ? nullptr : "it has no symbols that say where its functions are";
    if (const char* why = start_catching(region)) return why;
    if (const char* why = replace_all(program, sites, list.count)) {
        stop_catching();
        return why;
    }
    counts.programs += 1;
    counts.sites += list.count;
    counts.others += list.others;
    return nullptr;
}

const char* try_rewrite(Region& region, const char* sites_program) {
    // They might execute what is written, and come upon what is opened.
    if (!is_alone()) return "a library that was loaded with it may have started threads";
    const Opened found(moved_up(raw_call(SYS_memfd_create, word("chainio-sites"), MFD_CLOEXEC)));
    if (!found) return "there is no memory for what chainio-sites says";
    if (const char* why = run_helper({sites_program, found.get()})) return why;
    struct stat status;
    if (failed(raw_call(SYS_fstat, found.get(), word(&status))) || status.st_size < static_cast<long>(sizeof(SiteList)))
        return "chainio-sites said nothing";
    const Memory answer(status.st_size, 0, found.get());
    if (!answer) return "there is no memory for what chainio-sites said";
    const auto& list = *reinterpret_cast<const SiteList*>(answer.bytes());
    const auto rest = static_cast<std::uint64_t>(status.st_size) - sizeof list;
    if (list.magic != kSitesMagic || list.count > kMaxSites || list.count * sizeof(Site) != rest)
        return "chainio-sites is of another version";
    Program program;
    for_each_loaded(first_object, &program);
    return take(region, program, list, reinterpret_cast<const Site*>(answer.bytes() + sizeof list));
}

}  // namespace

void rewrite(Region& region, const char* sites_program) {
    if (!sites_program || sites_program[0] != '/') return;
    if (const char* why = try_rewrite(region, sites_program)) post_note(Note::not_rewritten, why);
}

}  // namespace chainio::shim
