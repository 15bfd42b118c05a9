// Whether a path matches a class's pattern. Shared by the preloaded library and the server, so that both say the same;
// freestanding.
#pragma once

namespace chainio::shim {

// `*` and `?` do not cross '/', `**` does, `[a-z]` and `[!a-z]` are sets, `\` takes the next character as it is. A
// pattern without
// '/' is compared with the last part of the path, one with it with the whole path. At most linear in path times
// pattern.
bool glob_matches(const char* pattern, const char* path);

}  // namespace chainio::shim
