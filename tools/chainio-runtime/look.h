// Asks file systems for files by their paths, on a thread of its own: one that does not answer keeps whoever asks it.
#pragma once
#include <sys/stat.h>

#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace chainio::runtime_tool {

// What a file system says of a path.
struct Seen {
    int error = 0;  // a number of errno: the path leads nowhere
    struct stat file{};
    timespec made{};  // when the file was made; zero where the file system does not say
};

class Look {
  public:
    explicit Look(std::vector<std::string> paths);
    // Does not wait for a file system: a thread that asks one goes on by itself, and ends when it has its answer.
    ~Look();
    Look(const Look&) = delete;
    Look& operator=(const Look&) = delete;

    // Asks for all paths; nothing is under way. False: no thread can be had, and they have been asked for at once.
    bool begin();
    bool is_under_way() const;  // until it is taken
    bool is_done() const;
    int fd() const;  // has an event (EPOLLET) once it is done, or sooner; -1: there is no thread
    // Which path is asked for now.
    const std::string& at() const;
    // Of each path, once it is done; valid until the next begin().
    std::span<const Seen> take();

  private:
    struct Shared;
    bool start();

    std::shared_ptr<Shared> shared_;
    std::thread thread_;
};

}  // namespace chainio::runtime_tool
