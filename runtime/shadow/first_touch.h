// What it takes to touch a page first that has just been filled. Where a virtual machine gives free memory back to its
// host, the host has to find memory for the page again: 1 to 12 us, which the program pays that reads it. Large pieces
// are given back and small ones are not, so that what the kernel fills in windows (windows.h) may cost that, and single
// pages not. Both are looked at now and then, and files begin as is cheaper.
#pragma once
#include <array>
#include <cstdint>

namespace chainio::shadow {

class FirstTouch {
  public:
    enum class How : std::uint8_t { in_windows, singly };
    static constexpr std::uint64_t kMattersNs = 1000;  // of a page; copying one takes some 400
    static constexpr std::uint64_t kSingleNs = 700;    // what a page costs that is allocated and added alone
    static constexpr unsigned kOften = 4, kSeldom = 8, kAgain = 32;

    // How the next file is to begin. What costs more is tried again at one in kAgain.
    How next() {
        if (of(How::in_windows).ns < kMattersNs) return How::in_windows;
        const bool other = ++chosen_ % kAgain == 0;
        return (cheaper() == How::singly) != other ? How::singly : How::in_windows;
    }
    bool knows(How how) const { return of(how).looks != 0; }
    // Whether what has come is to be looked at: the first few that came so, then one in kSeldom, and what is tried
    // again.
    bool wants(How how) {
        Cost& cost = of(how);
        return cost.looks < kOften || how != cheaper() || ++cost.passed % kSeldom == 0;
    }
    // It took `ns` longer than the second touch.
    void took(How how, std::uint64_t ns) {
        Cost& cost = of(how);
        cost.ns = cost.looks == 0 ? ns : (cost.ns + ns) / 2;
        cost.looks++;
    }

  private:
    struct Cost {
        std::uint64_t ns = 0;
        unsigned looks = 0, passed = 0;
    };
    Cost& of(How how) { return costs_[how == How::singly]; }
    const Cost& of(How how) const { return costs_[how == How::singly]; }
    // As far as is known.
    How cheaper() const {
        const std::uint64_t windows = of(How::in_windows).ns;
        if (windows < kMattersNs) return How::in_windows;
        return !knows(How::singly) || windows > of(How::singly).ns + kSingleNs ? How::singly : How::in_windows;
    }

    std::array<Cost, 2> costs_{};
    unsigned chosen_ = 0;
};

}  // namespace chainio::shadow
