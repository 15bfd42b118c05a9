// The files that a dynamic program will be made of, found as the dynamic loader finds them.
#pragma once
#include <cstdint>
#include <expected>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace chainio::probe {

struct Library {
    std::string name;  // as its users name it: "libsqlite3.so.0"; of the program, the last part of its path
    std::string path;  // without symbolic links
};

// ld.so.cache: libraries of this machine's own kind. Any bytes: what makes no sense is left out.
std::vector<Library> read_loader_cache(std::span<const std::uint8_t> bytes);

class Libraries {
  public:
    // The program and what it needs, and what those need. `program` is a path; a script stands for its interpreter. The
    // error names the file.
    static std::expected<Libraries, std::string> of(const std::string& program);

    const Library& program() const { return parts_.front(); }
    const std::vector<Library>& parts() const { return parts_; }  // the program first
    // The file that `name` ("libfoo.so", "libfoo.so.1", "libfoo", the program's name, or a path) stands for: a part of
    // the program, else one that the loader's cache has. The error says what there is.
    std::expected<Library, std::string> find(std::string_view name) const;

  private:
    std::string look_for(const std::string& name, const std::vector<std::string>& folders) const;

    std::vector<Library> parts_;
    std::vector<Library> cache_;
};

}  // namespace chainio::probe
