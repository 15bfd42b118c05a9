// The engine tests' module as an artifact file, compiled once a process.
#pragma once
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "compiler/backends/backends.h"
#include "tests/unit/engine/machine.h"

namespace chainio::tests {

inline const std::vector<std::uint8_t>& machine_artifact() {
    static const std::vector<std::uint8_t> bytes = [] {
        ir::Artifact artifact =
            engine::test::machine({.hops = 40, .result = ir::ResultKind::scalar, .with_done = true});
        auto built = backends::build_artifact(artifact, {});
        if (!built) ADD_FAILURE() << built.error();
        return built ? *built : std::vector<std::uint8_t>{};
    }();
    return bytes;
}

// A file that goes away with the object.
class TempFile {
  public:
    explicit TempFile(std::span<const std::uint8_t> bytes) {
        path_ = testing::TempDir() + "chainio-XXXXXX";
        const int fd = mkstemp(path_.data());
        std::FILE* file = fdopen(fd, "wb");
        std::fwrite(bytes.data(), 1, bytes.size(), file);
        std::fclose(file);
    }
    ~TempFile() { std::remove(path_.c_str()); }
    TempFile(const TempFile&) = delete;
    TempFile& operator=(const TempFile&) = delete;
    const std::string& path() const { return path_; }

  private:
    std::string path_;
};

}  // namespace chainio::tests
