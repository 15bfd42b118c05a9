// Who does not ask, and reads the items itself, past the page cache, from a file with an item a block.
#include <fcntl.h>
#include <liburing.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "runtime/ipc/own_fd.h"
#include "tests/bench/rings/wire.h"

namespace chainio::bench_rings {
namespace {

using bench_kv::kBlock;

struct Blocks {
    explicit Blocks(unsigned count)
        : bytes(static_cast<char*>(std::aligned_alloc(kBlock, count * kBlock)), std::free) {}
    char* of(std::uint32_t slot) const { return bytes.get() + slot * kBlock; }
    std::unique_ptr<char, void (*)(void*)> bytes;
};

std::uint32_t number_in(std::span<const char> request) {
    std::uint32_t number = 0;
    std::memcpy(&number, request.data(), sizeof number);
    return number;
}

ipc::OwnFd opened(const Load& load) {
    ipc::OwnFd file(open(load.path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
    if (!file) std::perror(load.path.c_str());
    return file;
}

// One read after the other.
class Preads final : public Wire {
  public:
    Preads(ipc::OwnFd file, const Load& load)
        : file_(std::move(file)), value_bytes_(load.items.value_bytes), block_(1) {
        asked_.reserve(load.outstanding);
        now_.reserve(load.outstanding);
    }
    bool ask(std::uint32_t slot, std::span<const char> request, std::size_t) override {
        asked_.push_back({slot, number_in(request)});
        return true;
    }
    Came turn(const Take& take) override {
        now_.clear();
        now_.swap(asked_);
        for (const Asked& each : now_) {
            const auto at = static_cast<off_t>(each.number) * static_cast<off_t>(kBlock);
            if (pread(file_.get(), block_.of(0), kBlock, at) != kBlock) return Came::end;
            take(each.slot, {block_.of(0), value_bytes_});
        }
        return Came::replies;
    }

  private:
    struct Asked {
        std::uint32_t slot = 0, number = 0;
    };
    ipc::OwnFd file_;
    std::size_t value_bytes_;
    Blocks block_;
    std::vector<Asked> asked_, now_;
};

// All that are on their way at once, with a registered file and registered memory.
class Uring final : public Wire {
  public:
    explicit Uring(const Load& load) : value_bytes_(load.items.value_bytes), blocks_(load.outstanding) {}
    ~Uring() override {
        if (made_) io_uring_queue_exit(&ring_);
    }
    Uring(const Uring&) = delete;
    Uring& operator=(const Uring&) = delete;

    bool open(const Load& load) {
        file_ = opened(load);
        if (!file_) return false;
        const int error = io_uring_queue_init(1024, &ring_, IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN);
        made_ = error == 0;
        const iovec memory{blocks_.of(0), load.outstanding * kBlock};
        const int fd = file_.get();
        const bool ready =
            made_ && io_uring_register_buffers(&ring_, &memory, 1) == 0 && io_uring_register_files(&ring_, &fd, 1) == 0;
        if (!ready) std::fprintf(stderr, "bench_rings: no io_uring: %s\n", std::strerror(-error));
        return ready;
    }

    bool ask(std::uint32_t slot, std::span<const char> request, std::size_t) override {
        io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
        if (sqe == nullptr) return false;
        io_uring_prep_read_fixed(sqe, 0, blocks_.of(slot), kBlock, std::uint64_t{number_in(request)} * kBlock, 0);
        sqe->flags |= IOSQE_FIXED_FILE;
        io_uring_sqe_set_data64(sqe, slot);
        return true;
    }

    Came turn(const Take& take) override {
        if (io_uring_submit_and_wait(&ring_, 1) < 0) return Came::end;
        io_uring_cqe* cqe = nullptr;
        while (io_uring_peek_cqe(&ring_, &cqe) == 0) {
            const auto slot = static_cast<std::uint32_t>(io_uring_cqe_get_data64(cqe));
            const bool whole = cqe->res == static_cast<int>(kBlock);
            io_uring_cqe_seen(&ring_, cqe);
            if (!whole) return Came::end;
            take(slot, {blocks_.of(slot), value_bytes_});
        }
        return Came::replies;
    }

  private:
    std::size_t value_bytes_;
    Blocks blocks_;
    ipc::OwnFd file_;
    io_uring ring_{};
    bool made_ = false;
};

}  // namespace

std::unique_ptr<Wire> open_preads(const Load& load) {
    ipc::OwnFd file = opened(load);
    if (!file) return nullptr;
    return std::make_unique<Preads>(std::move(file), load);
}

std::unique_ptr<Wire> open_uring(const Load& load) {
    auto wire = std::make_unique<Uring>(load);
    if (!wire->open(load)) return nullptr;
    return wire;
}

}  // namespace chainio::bench_rings
