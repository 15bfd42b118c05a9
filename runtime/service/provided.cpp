#include "runtime/service/provided.h"

#include <cstring>

namespace chainio::service {

Provided::Provided(std::uint32_t count, std::uint32_t bytes, std::uint32_t with_kernel)
    : count_(count), bytes_(bytes), most_(with_kernel), memory_(std::size_t{count} * bytes) {
    waiting_.reserve(count);
    for (std::uint32_t i = count; i-- > 0;) waiting_.push_back(i);
}

Provided::~Provided() {
    if (provided_ != nullptr) io_uring_free_buf_ring(ring_, provided_, count_, group_);
}

std::expected<void, std::string> Provided::hand_to(io_uring* ring, int group) {
    if (memory_.base() == nullptr) return std::unexpected("no memory for the buffers that receive");
    int error = 0;
    provided_ = io_uring_setup_buf_ring(ring, count_, group, 0, &error);
    if (provided_ == nullptr)
        return std::unexpected(std::string("provided buffers cannot be registered: ") + std::strerror(-error) +
                               (error == -EINVAL ? " (they need Linux 5.19)" : ""));
    ring_ = ring;
    group_ = group;
    while (with_kernel_ < most_) {
        with_kernel_++;
        provide(waiting_.back());
        waiting_.pop_back();
    }
    return {};
}

void Provided::used() {
    if (waiting_.empty()) {
        with_kernel_--;
        return;
    }
    provide(waiting_.back());
    waiting_.pop_back();
}

void Provided::give_back(std::uint32_t buffer) {
    if (with_kernel_ >= most_) return waiting_.push_back(buffer);
    with_kernel_++;
    provide(buffer);
}

void Provided::provide(std::uint32_t buffer) {
    io_uring_buf_ring_add(provided_, data(buffer), bytes_, static_cast<unsigned short>(buffer),
                          io_uring_buf_ring_mask(count_), 0);
    io_uring_buf_ring_advance(provided_, 1);
}

}  // namespace chainio::service
