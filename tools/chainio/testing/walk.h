// One chain from its first read to its end, one step after the other: what the language says, without an engine's
// queues, so that a test's reads are counted and named exactly.
#pragma once
#include <cstdint>
#include <expected>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bpf-templates/chainio_step.h"
#include "compiler/ir/artifact.h"
#include "tools/chainio/testing/suite.h"

namespace chainio::testing {

// What runs a step program: the interpreter, native code, or the kernel.
class Steps {
  public:
    virtual ~Steps() = default;
    virtual std::string name() const = 0;
    // `block` has io.block_length bytes and CIO_PAD readable ones behind them. An error is the engine's, not the
    // chain's.
    virtual std::expected<void, std::string> run(std::uint32_t program, cio_io& io, const std::uint8_t* block) = 0;
};

struct DoneRead {
    std::string file;  // the chain's parameter
    std::uint64_t at = 0;
    std::uint32_t length = 0;
    bool operator==(const DoneRead&) const = default;
};

struct DonePrefetch {
    std::uint32_t kind = CIO_PREFETCH_SAME;
    std::string target;  // the class, or the chain
    Bytes name;
    std::uint64_t at = 0, length = 0;
    std::vector<std::uint64_t> args;
    bool operator==(const DonePrefetch&) const = default;
};

struct Outcome {
    std::uint32_t outcome = CIO_OK;
    ir::ResultKind kind = ir::ResultKind::none;
    std::uint64_t scalar = 0;
    Bytes bytes;
    std::vector<DoneRead> reads;
    std::vector<DonePrefetch> prefetches;
    bool operator==(const Outcome&) const = default;
};

// A file that a chain reads: bytes in memory, or one that somebody has open.
class FileView {
  public:
    explicit FileView(const Bytes& bytes) : bytes_(&bytes), size_(bytes.size()) {}
    FileView(int fd, std::uint64_t size) : fd_(fd), size_(size) {}
    std::uint64_t size() const { return size_; }
    // Less than that where the file ends; the error is an errno.
    std::expected<Bytes, int> read(std::uint64_t at, std::uint32_t length) const;

  private:
    const Bytes* bytes_ = nullptr;
    int fd_ = -1;
    std::uint64_t size_;
};

struct CallInput {
    std::uint32_t chain = 0;
    std::vector<FileView> files;  // by file parameter
    std::vector<Value> args;      // by scalar and bytes parameter, in order
};

// What a shadow chain is shown.
struct BoundEvent {
    Bytes block;
    std::uint64_t at = 0;
    std::uint64_t total = 0;                // bytes of the whole read
    std::uint64_t mark = 0, last_mark = 0;  // of the place where it began, and of where the chain last said something
    const Bytes* file = nullptr;
};

// `args` of react() are those of a probe. The error says why the chain could not be started or its engine failed.
std::expected<Outcome, std::string> walk(const ir::Artifact& artifact, Steps& steps, const CallInput& input);
std::expected<Outcome, std::string> react(const ir::Artifact& artifact, Steps& steps, std::uint32_t chain,
                                          const BoundEvent& event, const std::vector<Value>& args);

}  // namespace chainio::testing
