// The replies of one TCP connection on their way out: text that is written here, and between it bytes that chains have
// read, which are sent from the frames in which they lie. A frame is given back once nothing of it is left to be sent,
// its request asks for no more of it, and the kernel has let go of it. Bounded, and nothing here knows the kernel.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/service/sink.h"

namespace chainio::service {

inline constexpr std::size_t kOutput = std::size_t{64} << 10;  // text that waits for the socket

// An engine's memory, and how much of it waits in connections. Those who take a reply slowly leave the rest to reads.
struct Lender {
    explicit Lender(engine::Engine& with) : engine(with), most(with.slab().region().size() / 4) {}
    engine::Engine& engine;
    std::size_t most, bytes = 0;
    unsigned frames = 0;
};

class Output : public Sink {
  public:
    static constexpr std::size_t kMostPieces = 24, kMostLent = 8;
    static constexpr std::uint32_t kText = UINT32_MAX;
    // Bytes that are sent in one go, as far as the kernel takes them.
    struct Piece {
        const std::uint8_t* data = nullptr;
        std::uint32_t length = 0;
        std::uint32_t lent = kText;  // the place of the frame in which they lie
    };

    Output(std::uint8_t* memory, std::size_t size) : memory_(memory), size_(size) {}
    // From here on results of `shortest` bytes and more are sent from where they lie.
    void use(Lender& lender, std::uint32_t shortest) {
        lender_ = &lender;
        shortest_ = shortest;
    }
    std::size_t room() const { return extends() || count_ < kMostPieces ? size_ - end_ : 0; }
    bool empty() const { return count_ == 0; }
    std::size_t add(std::span<const std::uint8_t> bytes) override;
    std::span<std::uint8_t> space() override { return {memory_ + end_, room()}; }
    void took(std::size_t length) override;
    bool refer(const engine::Stretch& bytes) override;
    void let_go(umem::Frame frame) override;
    bool sends_early() const override { return true; }

    // What is there so far is of whole replies; what comes from here on is of another one.
    void end_reply();
    // Bytes that are left of whole replies, in front of those of one that goes on.
    std::size_t of_whole() const { return of_whole_; }
    // What is to be sent next: `most` bytes or few more, and none behind the first `limit`.
    std::span<const Piece> unsent(std::span<Piece> out, std::size_t most, std::size_t limit = SIZE_MAX) const;
    const Lender& lender_of(std::uint32_t lent) const { return *lents_[lent].lender; }
    void sent(std::size_t length);
    // The kernel has bytes of the frame until it says otherwise: once for each time; also of a send that took none.
    void keeps(std::uint32_t lent, bool any = true);
    // Of a send that took none the kernel says that it copied. False: what it says is of such a one.
    bool let_go_of(std::uint32_t lent, bool copied = false);
    // How often it has to say so.
    unsigned kept() const { return kept_; }
    // Whether frames of that memory wait here, or the kernel has them.
    bool has_of(const Lender& lender) const;
    bool lends(umem::Frame frame, const Lender& of) const;
    bool lends_any() const;
    // Nothing more is sent; what the kernel still has is given back when it lets go of it.
    void abandon();
    void clear();

  private:
    struct Lent {
        Lender* lender = nullptr;
        umem::Frame frame = umem::kNoFrame;
        std::uint32_t pieces = 0, kept = 0, kept_nothing = 0;  // of the kept: sends that took no byte
        bool wanted = false;                                   // its request may refer to it again
    };
    bool extends() const;
    Piece& piece(std::size_t number) { return pieces_[(first_ + number) % kMostPieces]; }
    const Piece& piece(std::size_t number) const { return pieces_[(first_ + number) % kMostPieces]; }
    Lent* lend(const engine::Stretch& bytes);
    void give_back(Lent& lent);

    std::uint8_t* memory_;
    std::size_t size_, begin_ = 0, end_ = 0;  // of the text
    std::array<Piece, kMostPieces> pieces_{};
    std::size_t first_ = 0, count_ = 0, of_whole_ = 0;
    std::array<Lent, kMostLent> lents_{};
    unsigned kept_ = 0;
    Lender* lender_ = nullptr;
    std::uint32_t shortest_ = UINT32_MAX;
};

}  // namespace chainio::service
