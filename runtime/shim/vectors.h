// The first buffers of vectors, as they stand before a call that may write over the vectors themselves. What cannot be
// read is left to the kernel, which tells the program so.
#pragma once
#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "runtime/shim/raw.h"

namespace chainio::shim {

class Vectors {
  public:
    // Empty where there is none.
    iovec first_of(const iovec* list, std::size_t count) {
        return list && count != 0 && is_readable(list, sizeof *list) ? *list : iovec{};
    }
    iovec first_of(const msghdr* message) {
        return is_readable(message, sizeof *message) ? first_of(message->msg_iov, message->msg_iovlen) : iovec{};
    }

  private:
    static constexpr std::uintptr_t kPage = 4096;

    // At most a page of them. Those of several messages lie side by side as a rule, and a page is asked for once.
    bool is_readable(const void* at, std::size_t bytes) {
        const auto begin = reinterpret_cast<std::uintptr_t>(at), last = begin + bytes - kWord;
        const std::uintptr_t page = begin / kPage, last_page = (begin + bytes - 1) / kPage;
        if (page == known_ && last_page == known_) return true;
        if (!is_word(begin) || !is_word(last)) return false;
        known_ = last_page;
        return true;
    }

    // The kernel reads a mask of signals, and then refuses what is to be done with it. No filter of system calls stops
    // this one, as libc makes it itself.
    static constexpr std::size_t kWord = 8;
    static bool is_word(std::uintptr_t at) {
        constexpr long kNothing = -1;
        return raw_call(SYS_rt_sigprocmask, kNothing, static_cast<long>(at), 0, kWord) == -EINVAL;
    }

    std::uintptr_t known_ = UINTPTR_MAX;  // a page; there is none of that number
};

}  // namespace chainio::shim
