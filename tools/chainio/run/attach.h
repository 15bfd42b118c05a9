// Looking at the region of a run from outside, read-only.
#pragma once
#include <expected>
#include <memory>
#include <string>
#include <vector>

#include "runtime/shim/protocol.h"

namespace chainio::run {

struct RunningRun {
    int server = 0;            // the process id of `chainio run`
    std::string command_line;  // its words
    bool serves = true;        // else its server has ended before it
};

class Attached {
  public:
    Attached(const Attached&) = delete;
    Attached& operator=(const Attached&) = delete;
    ~Attached();
    const shim::Region& region() const { return *region_; }
    int server() const { return server_; }
    bool alive() const;  // whether its server still runs

  private:
    friend std::vector<RunningRun> running_runs();
    friend std::expected<std::unique_ptr<Attached>, std::string> attach(int pid);
    static std::unique_ptr<Attached> to(const std::string& path);
    explicit Attached(const shim::Region* region);

    const shim::Region* region_;
    int named_;       // the server, as the run's PID namespace numbers it
    int server_ = 0;  // as this one does
};

// The runs that this user may look at.
std::vector<RunningRun> running_runs();

// By the process id of a `chainio run` or of any process of the run.
std::expected<std::unique_ptr<Attached>, std::string> attach(int pid);

}  // namespace chainio::run
