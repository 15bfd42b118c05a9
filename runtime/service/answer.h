// A reply to a datagram, in frames of the engine's memory: what chains have read lies where it was read to, everything
// else is written beside it. It is sent from there, by AF_XDP or by a socket.
#pragma once
#include <array>
#include <vector>

#include "compiler/ir/datagram_heads.h"
#include "runtime/service/sink.h"

namespace chainio::service {

inline constexpr std::size_t kMostDatagrams = 64;  // of one reply
inline constexpr std::size_t kLongestDatagram = 65535;
inline constexpr std::uint32_t kDatagramHead = ir::kDatagramHead;

class Answer : public Sink {
  public:
    // In front of each datagram's own begin there is room for the headers of a packet.
    static constexpr std::uint32_t kFrame = 4096, kHeadroom = 64, kHeads = kHeadroom + kDatagramHead;
    static constexpr std::size_t kMostStretches = 64;  // of one datagram

    // For replies of `longest` bytes, whatever they consist of; nothing is allocated from then on.
    explicit Answer(std::size_t longest);
    // Whose memory the next replies are in, and how long they may be; to be called while there is none. What is longer
    // takes no memory for the rest of it.
    void use(engine::Engine& engine, std::size_t most = SIZE_MAX) {
        engine_ = &engine;
        most_ = most;
    }
    std::size_t add(std::span<const std::uint8_t> bytes) override;
    std::span<std::uint8_t> space() override;
    void took(std::size_t length) override;
    bool refer(const engine::Stretch& bytes) override;
    std::size_t length() const { return length_; }
    // What it had no room for would have had some in memory that others have.
    bool wants_memory() const { return wants_memory_; }

    // Makes room for the begins of that many datagrams; false: there is no memory.
    bool make_heads(std::size_t count);
    // Where the begin of datagram `number` is written, so that it ends where the stretch ends.
    engine::Stretch head(std::size_t number) const;
    // The stretches of `length` bytes of the reply from `from` on behind `head`, those that touch joined.
    std::size_t cut(const engine::Stretch& head, std::size_t from, std::size_t length,
                    std::span<engine::Stretch> out) const;
    // All of it, to where there is room for that.
    void copy_to(std::uint8_t* to) const;
    // Moves short text to the bytes that it goes out with, in front of them or behind, where their frame has room and
    // nothing else of it is sent; and gives how many stretches are left. Of a reply that is one datagram.
    std::size_t join(std::span<engine::Stretch> stretches) const;
    std::uint8_t* data(const engine::Stretch& stretch) const {
        return engine_->memory().data(stretch.frame) + stretch.offset;
    }

    // Gives the frames back.
    void clear();
    // Somebody else has them, and gives them back.
    void forget();
    std::span<const umem::Frame> frames() const { return frames_; }

  private:
    umem::Frame new_frame();
    bool is_text(umem::Frame frame) const;
    bool takes_text(umem::Frame frame) const;
    bool text_room();
    engine::Stretch* last_text();

    engine::Engine* engine_ = nullptr;
    std::vector<umem::Frame> frames_;
    std::vector<bool> of_text_;  // they are ours, with what was written
    std::vector<engine::Stretch> stretches_;
    std::size_t length_ = 0;
    std::size_t most_ = SIZE_MAX;
    bool wants_memory_ = false;
    static constexpr std::size_t kHeadsInFrame = kFrame / kHeads;
    umem::Frame text_ = umem::kNoFrame;  // where more can be written
    std::uint32_t text_end_ = 0;
    std::array<umem::Frame, kMostDatagrams / kHeadsInFrame> heads_{};  // of the datagrams behind the first
    std::size_t heads_count_ = 0;
};

}  // namespace chainio::service
