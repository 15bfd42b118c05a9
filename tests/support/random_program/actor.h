// A random program is made of actors: the first process, its children and its threads. Each has random numbers, files,
// descriptors and a log of its own, so that what it logs does not depend on how the actors are scheduled.
#pragma once
#include <sys/types.h>

#include <cerrno>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// A probe of a spec hears which file, below the folder of all programs, is about to be of interest.
extern "C" void chainio_random_step(const char* file);

namespace chainio::random_program {

class Rng {
  public:
    explicit Rng(std::uint64_t seed) : state_(seed) {}
    std::uint64_t next();
    std::size_t below(std::size_t bound) { return next() % bound; }
    bool chance(unsigned percent) { return below(100) < percent; }
    template <class T, std::size_t N>
    const T& of(const T (&values)[N]) {
        return values[below(N)];
    }

  private:
    std::uint64_t state_;
};

std::uint64_t hash_of(const void* data, std::size_t bytes);

// What errno is before each call that is logged: whoever changes it in a call that succeeds is seen.
inline constexpr int kUntouched = 777;
inline constexpr unsigned kFiles = 8;
inline constexpr std::size_t kMostBytes = 24 * 1024;
inline constexpr std::size_t kPage = 4096;

// What the whole process shares.
struct Process {
    std::string base;     // absolute folder of the program
    std::string program;  // absolute path of this executable, to start it again
    std::uint16_t port = 0;
    bool in_sub = false;   // the working directory is base/sub, not base
    bool settled = false;  // its fixed files have not changed for a while
    bool served = false;   // it does nothing for which direct reads of these would not be served
    unsigned children = 0;
};
extern Process process;

class Actor {
  public:
    // Without `alone` other threads run beside it: what the process shares (descriptor numbers, working directory,
    // signals) is then neither logged nor changed.
    Actor(std::string folder, std::uint64_t seed, bool alone, int depth);
    ~Actor();
    Actor(const Actor&) = delete;

    void run(unsigned operations);
    void make_files();
    void close_all();

    // Makes a call and logs what it returned and what it did to errno.
    template <class Call>
    long call(std::string_view what, Call make) {
        errno = kUntouched;
        const long result = static_cast<long>(make());
        note(what, result, errno);
        return result;
    }
    // The same for a call that returns a new descriptor: its number counts when nobody else opens any.
    template <class Call>
    int call_fd(std::string_view what, Call make) {
        errno = kUntouched;
        const int result = static_cast<int>(make());
        const int error = errno;
        note(what, result >= 0 && !alone ? 0 : result, error);
        return result;
    }
    void note(std::string_view what, long result, int error = kUntouched);
    void bytes(const void* data, long count);  // logs the hash of what a call returned
    void text(std::string_view line);
    void position(int fd);  // logs where the descriptor stands

    std::span<std::uint8_t> random_bytes(std::size_t count);  // valid until the next call
    std::span<std::uint8_t> buffer(std::size_t count);        // zeroed; another piece of memory
    std::string path(unsigned file);                          // one of several spellings of the same path
    std::string plain_path(unsigned file) const;
    std::string fixed_path();  // a file that never changes
    unsigned file() { return static_cast<unsigned>(rng.below(kFiles)); }
    int slot();                                        // a descriptor of a file, or -1
    std::size_t writable(int fd, std::size_t length);  // of a write whose outcome does not depend on the disk
    void keep(int fd);                                 // takes a descriptor; closes another when there are many
    int open_some(int flags);                          // opens a random file, unlogged

    Rng rng;
    std::string folder;  // "" or "name/", below the base
    bool alone;
    int depth;
    std::vector<int> slots;
    std::string log;

  private:
    std::vector<std::uint8_t> in_, out_;
    std::string program_;  // the program's folder, below that of all
    unsigned count_ = 0;
};

struct Operation {
    const char* name;
    unsigned weight;
    void (*run)(Actor&);
    bool in_threads;     // also while others run in the same process
    bool nested;         // also in children and threads
    bool rings = false;  // sets up a ring, beside which nothing is served
};
using Operations = std::vector<Operation>;
Operations file_operations();
Operations name_operations();
Operations spelling_operations();
Operations memory_operations();
Operations transfer_operations();
Operations socket_operations();
Operations web_operations();
Operations event_operations();
Operations signal_operations();
Operations descriptor_operations();
Operations process_operations();
Operations thread_operations();
Operations ring_operations();
Operations edge_operations();
Operations space_operations();
Operations stream_operations();
Operations receive_operations();
Operations notice_operations();
Operations escape_operations();
Operations table_operations();
Operations alias_operations();

// Writes a log beside the files by calls of its own.
void write_log(const std::string& path, std::string_view text);
int threads();  // of this process
// In a new process: lists what it inherited on standard output.
int report_inherited();
int run_helper(int argc, char** argv);
// Serves connections of a listener; words: its descriptor, how many, whether by sendfile, the folder.
int run_server(char** words);
// Sequenced changes with a journal: wherever it is killed, the files are those of a prefix.
int run_journal(const std::string& folder, std::uint64_t seed, unsigned steps);

}  // namespace chainio::random_program
