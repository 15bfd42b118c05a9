// Names of files that stand for a descriptor of the process which opens them, as /dev/stdin does.
#pragma once
#include <expected>
#include <optional>
#include <string>

namespace chainio::run {

// The descriptor of this process that is opened by that path, also through links; -1: one that there cannot be. Nothing
// where it is another file.
std::optional<int> descriptor_named(std::string path);
// Another one of the same, for when this process has let go of its own; the error is an errno.
std::optional<std::expected<int, int>> kept_descriptor(const std::string& path);

}  // namespace chainio::run
