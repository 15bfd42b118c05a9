// Where the kernel shows what a descriptor of the process has open.
#pragma once
#include <cstring>

namespace chainio::shim {

// Its number is written by hand, since printf may allocate.
struct DescriptorLink {
    char text[32] = "/proc/self/fd/";
    explicit DescriptorLink(int descriptor) {
        char digits[12];
        unsigned count = 0;
        for (auto rest = static_cast<unsigned>(descriptor); count == 0 || rest != 0; rest /= 10)
            digits[count++] = static_cast<char>('0' + rest % 10);
        char* at = text + std::strlen(text);
        while (count != 0) *at++ = digits[--count];
        *at = 0;
    }
};

}  // namespace chainio::shim
