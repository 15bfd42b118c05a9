// The files that events are about and that chains prefetch from: found by device and inode, opened by path only when
// needed.
#pragma once
#include <sys/stat.h>

#include <atomic>
#include <bitset>
#include <cstdint>
#include <expected>
#include <list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/shadow/devices.h"
#include "runtime/shadow/stamps.h"
#include "runtime/shim/protocol.h"
#include "runtime/spec/loaded.h"

namespace chainio::shadow {

// One number for a file, the key of its ranges. Two files that share one would only be mixed up in the score.
std::uint64_t file_key(std::uint64_t device, std::uint64_t inode);

// Why a file cannot be had; the files are counted in the report.
enum class FileRefusal : std::uint8_t {
    no_path,
    cannot_open,
    not_regular,
    made_when_read,
    replaced,
    leaves_root,
    no_match,
    elsewhere,
    bad_header,
    no_descriptors,
    no_proc
};
inline constexpr std::size_t kFileRefusals = 11;

struct ShadowFile {
    std::uint64_t device = 0, inode = 0, key = 0;
    std::string path;
    std::uint32_t file_class = 0;  // whose pattern matches the path
    int fd = -1;
    bool named = true;    // by chains only: once it is closed nothing of it need be remembered
    bool direct = false;  // programs read it with O_DIRECT, as far as the latest opening or read tells
    // Opening it went wrong; it is not tried again until a program opens it anew.
    std::optional<FileRefusal> refused;
    bool served = false;  // `direct`, and its class is immutable: what is fetched goes into served memory (direct.h)
    std::uint64_t size = 0;
    bool sized = false;            // just now: nobody has gone by the size yet
    std::uint64_t read_ahead = 0;  // how far the kernel reads ahead on its device, bytes
    bool begins_reads = false;     // its file system begins a read and lets go of who asked for it
    bool counts_pages = false;     // cachestat(2) tells what of it is in memory
    bool untold = false;           // nothing does: what was fetched may have been there
    std::uint64_t read_end = 0;    // of the program's latest read of it
    // While it is ready to be served.
    int direct_fd = -1;
    std::uint64_t served_id = 0, served_stamp = 0, served_size = 0;
    std::uint64_t checked_ns = 0;         // when the path was last known to lead to it
    std::uint64_t foretold_ns = 0;        // when chains on openings were last shown it before it was opened
    std::bitset<shim::kMaxChains> shown;  // chains on openings that have been shown this one
    std::uint32_t shown_read = 0;         // Events::last_read() at that time
    struct Header {
        std::uint32_t file_class;
        std::optional<std::vector<std::uint64_t>> fields;  // none: the first bytes are not the class's header
        std::uint64_t stamp = 0;  // of the file when they were read; 0: it may change without getting another one
        std::optional<std::uint32_t> looked = {};  // Files::looks_ at the last look; none: not since opened()
    };
    std::vector<Header> headers;
    Unchanged seen;
    std::uint32_t waiting = 0;   // requests that have not begun; each pins it, too
    std::uint32_t pins = 0;      // walks and fetches under way: not to be closed
    std::uint32_t openings = 0;  // of programs, that were seen and have not been closed
    std::uint32_t used = 0;      // the turn of let_go() before which it was used last
};

// How far the kernel reads ahead when a program reads the file, bytes; 0: not at all.
std::uint64_t programs_read_ahead(const ir::Module& module, const ShadowFile& file);

class Files {
  public:
    Files(const spec::Loaded& spec, std::uint32_t most_known, std::uint32_t most_open);
    ~Files();
    Files(const Files&) = delete;
    Files& operator=(const Files&) = delete;

    using Closing = void (*)(void* context, ShadowFile& file);
    void on_closing(Closing closing, void* context) { closing_ = closing, closing_context_ = context; }

    bool matches(std::uint32_t file_class, const char* path) const;
    // A program has opened it with these flags, by a path that the class matches.
    ShadowFile& opened(std::uint64_t device, std::uint64_t inode, std::string_view path, std::uint64_t flags,
                       std::uint32_t file_class);
    // A program reads it, with O_DIRECT or without: others may have opened it otherwise meanwhile.
    void is_read(ShadowFile& file, bool direct) const;
    // A program has closed an opening for good.
    void closed(std::uint64_t device, std::uint64_t inode);
    ShadowFile* find(std::uint64_t device, std::uint64_t inode);
    // Looks for a file whose opening was not seen among the descriptors of a process. Whoever posts can claim any, so
    // that only one whose path the class matches is known from then on.
    std::expected<ShadowFile*, FileRefusal> search(std::uint32_t process, std::uint64_t device, std::uint64_t inode,
                                                   std::uint32_t file_class);
    // Of a file that is known; empty of any other.
    std::string path_of(std::uint64_t key) const;
    // Whether it is known without opening it how far the kernel reads ahead on its device.
    bool glances_at(ShadowFile& file) const;
    // Opens it unless it is; the path must still lead to the same device and inode.
    std::expected<int, FileRefusal> open(ShadowFile& file);
    // The file beside it whose last part ends otherwise.
    std::expected<ShadowFile*, FileRefusal> sibling(const ShadowFile& file, std::string_view ending,
                                                    std::uint32_t file_class, std::uint64_t now_ns);
    // The one at an absolute path.
    std::expected<ShadowFile*, FileRefusal> at(const std::string& path, std::uint32_t file_class,
                                               std::uint64_t now_ns) {
        return by_path({}, {}, path, file_class, now_ns);
    }
    // A percent-encoded path under the class's root; of a folder, the class's index in it.
    std::expected<ShadowFile*, FileRefusal> under_root(std::string_view encoded, std::uint32_t file_class,
                                                       std::uint64_t now_ns);
    // Where under_root() looks, as far as that can be told: for people.
    std::string shown_path(std::string_view encoded, std::uint32_t file_class) const;
    // The header fields of an opened file, kept; null when its first bytes are not the class's header. How long the
    // file is, and whether it has changed since they were read, is looked at once after each opened() and each
    // look_again().
    const std::vector<std::uint64_t>* header(ShadowFile& file, std::uint32_t file_class);

    // What is kept of files may be out of date. To be called now and then, as looking takes a system call.
    void look_again() { looks_++; }

    // Closes what has been deleted, and what nobody has asked for lately. To be called every half second.
    void let_go();
    // Closes what has been deleted; false: some of it is being read.
    bool let_go_of_deleted();
    // Closes all files; false: some are being read.
    bool let_go_of_all();
    // What programs know of a file system's disk is taken back when another one has got its number.
    void tell_of_disks(std::span<shim::DiskFacts> disks) { devices_.tell_programs(disks); }
    // Is 1 from before a file is opened.
    void tell_of_openings(std::atomic<std::uint32_t>& may_be_open) { may_be_open_ = &may_be_open; }

    std::uint32_t known() const { return static_cast<std::uint32_t>(closed_.size() + opened_.size()); }
    // How many times files were opened of which nobody says what is in memory.
    std::uint64_t untold() const { return untold_; }
    std::uint32_t open_count() const { return static_cast<std::uint32_t>(opened_.size()); }

  private:
    struct Key {
        std::uint64_t device, inode;
        bool operator==(const Key&) const = default;
    };
    struct KeyHash {
        std::size_t operator()(const Key& key) const { return file_key(key.device, key.inode); }
    };
    using List = std::list<ShadowFile>;
    ShadowFile& add(std::uint64_t device, std::uint64_t inode, std::string_view path);
    std::expected<ShadowFile*, FileRefusal> by_path(const std::string& root, const std::string& relative,
                                                    const std::string& path, std::uint32_t file_class,
                                                    std::uint64_t now_ns);
    struct Opened {
        int fd = -1;
        struct stat info{};
    };
    bool may_be_of(std::uint32_t file_class, int fd) const;
    bool may_be_called(const ShadowFile& file, std::string_view path, std::uint32_t file_class) const;
    std::expected<int, FileRefusal> open_root(const std::string& root);
    std::expected<Opened, FileRefusal> open_regular_now(int at, const char* path, std::uint64_t resolve,
                                                        std::uint32_t file_class);
    std::expected<Opened, FileRefusal> open_regular(int at, const char* path, std::uint64_t resolve,
                                                    std::uint32_t file_class);
    std::expected<Opened, FileRefusal> open_beneath(const std::string& root, const std::string& relative,
                                                    std::uint32_t file_class);
    int reopen(int place, std::uint32_t owner);
    ShadowFile* take(const Opened& made, const std::string& path, std::uint32_t file_class, std::uint64_t now_ns);
    void touch(List::iterator at);
    void has_opened(ShadowFile& file, int fd, std::uint64_t size);
    void close_file(List::iterator at);
    template <typename Which>
    bool let_go_of(Which which);
    void close_or_forget(List::iterator at);
    void forget(List::iterator at);
    void forget_path(const ShadowFile& file);
    void forget_oldest();
    bool close_oldest();
    void close_some();
    void look_at(ShadowFile& file, ShadowFile::Header& header);
    void read_header(const ShadowFile& file, ShadowFile::Header& header);

    const spec::Loaded& spec_;
    std::uint32_t most_known_, most_open_, turn_ = 0, looks_ = 0;
    List opened_, closed_;  // files with a descriptor and those without, the most recently used first
    std::unordered_map<Key, List::iterator, KeyHash> by_inode_;
    std::unordered_map<std::string, Key> by_path_;
    Devices devices_;
    int own_fds_;               // /proc/self/fd; -1: there is none
    std::uint32_t user_;        // ours; root may open what those who post may not
    bool leaves_times_ = true;  // files of other users can be read with O_NOATIME
    std::uint64_t untold_ = 0;
    std::atomic<std::uint32_t>* may_be_open_ = nullptr;
    Closing closing_ = nullptr;
    void* closing_context_ = nullptr;
};

// `%41` and the like decoded; nothing when a component is "..", a byte is 0 or an escape is broken. Leading '/' are
// removed.
std::optional<std::string> decode_path(std::string_view encoded);
// The path with the ending of its last part (from its last '.') replaced.
std::string with_ending(const std::string& path, std::string_view ending);

}  // namespace chainio::shadow
