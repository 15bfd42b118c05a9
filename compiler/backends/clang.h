// Running clang on the emitted C, in a directory of its own that is gone afterwards.
#pragma once
#include <cstdint>
#include <expected>
#include <memory>
#include <string>
#include <vector>

#include "compiler/backends/interruption.h"

namespace chainio::backends {

// A private directory, removed with everything in it, also when a signal ends the program.
class TempDir {
  public:
    static std::expected<TempDir, std::string> make();
    TempDir(TempDir&& other) noexcept;
    TempDir& operator=(TempDir&&) = delete;
    ~TempDir();
    std::string file(const std::string& name) const { return path_ + "/" + name; }
    const std::string& path() const { return path_; }

  private:
    TempDir() : interruption_(std::make_unique<Interruption>()) {}
    std::unique_ptr<Interruption> interruption_;
    std::string path_;  // empty: there is none
};

// The program to run, as an absolute path: `wanted` when given, else the first of clang-19, clang-20, clang-18, clang
// on PATH.
std::expected<std::string, std::string> find_clang(const std::string& wanted);

// Empty when it cannot be read.
std::vector<std::uint8_t> read_bytes(const std::string& path);

struct ClangJob {
    std::string what;                    // for messages: "the BPF programs"
    std::vector<std::string> arguments;  // without the program
    std::string output;                  // file in the directory
};
// Runs the jobs side by side in `dir` and returns the bytes of each output.
std::expected<std::vector<std::vector<std::uint8_t>>, std::string> run_clang(const std::string& clang,
                                                                             const TempDir& dir,
                                                                             const std::vector<ClangJob>& jobs);

}  // namespace chainio::backends
