// What a file that takes another's place takes over from it.
#pragma once
#include <expected>
#include <string>
#include <vector>

namespace chainio::tool {

// Gives `fd` the owner, the mode, the access control list, the label and the attributes of the file at `path`, as far
// as this user may; without such a file, the mode that the user gives to files. What could not be given, in words; an
// error where it may be read by others than were meant to.
std::expected<std::vector<std::string>, std::string> take_over_rights(int fd, const std::string& path);

}  // namespace chainio::tool
