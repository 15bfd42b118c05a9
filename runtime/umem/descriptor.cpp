#include "runtime/umem/descriptor.h"

namespace chainio::umem {

std::string_view name_of(Fault fault) {
    switch (fault) {
        case Fault::bad_index: return "bad_index";
        case Fault::bad_kind: return "bad_kind";
        case Fault::bad_class: return "bad_class";
        case Fault::bad_frame: return "bad_frame";
        case Fault::bad_range: return "bad_range";
        case Fault::bad_dependency: return "bad_dependency";
    }
    return "unknown";
}

std::expected<void, Fault> check(const Descriptor& descriptor, const Limits& limits) {
    if (descriptor.kind < Kind::read || descriptor.kind > Kind::release) return std::unexpected(Fault::bad_kind);
    if (descriptor.class_index >= limits.classes) return std::unexpected(Fault::bad_class);
    const std::uint64_t begin = std::uint64_t{descriptor.frame} * kUnit;
    if (begin >= limits.region_bytes) return std::unexpected(Fault::bad_frame);
    const std::uint64_t end_in_frame = std::uint64_t{descriptor.offset} + descriptor.length;
    if (end_in_frame > kMaxFrame || begin + end_in_frame > limits.region_bytes)
        return std::unexpected(Fault::bad_range);
    // What depends on itself would never be done.
    if (descriptor.depends_on != 0 && descriptor.depends_on == descriptor.serial)
        return std::unexpected(Fault::bad_dependency);
    return {};
}

}  // namespace chainio::umem
