// Where the dynamic loader looks for what a program and its libraries need, in its order (ld.so(8)).
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/probe/elf_view.h"

namespace chainio::probe {

std::vector<std::string> split(std::string_view list, std::string_view separators);

// Folders of builds for newer processors that this one can run (glibc-hwcaps), the best first.
const std::vector<std::string>& processor_folders();
// What a name may be in a folder, the best first.
std::vector<std::string> candidates_in(const std::string& folder, const std::string& name);

class LoaderPaths {
  public:
    // Of a program at `path`, which is the first part.
    LoaderPaths(const ElfView& program, const std::string& path);
    // The next part, found under that name, which may be a link's; `loader` needed it.
    void add(const ElfView& library, const std::string& found_as, std::size_t loader);
    // One that says nothing.
    void add_nothing(std::size_t loader) { parts_.push_back({{}, {}, {}, loader}); }

    // In front of the loader's cache, for what a part needs.
    std::vector<std::string> folders_for(std::size_t part) const;
    std::string expanded(std::string_view text, std::size_t part) const { return expand(text, parts_[part].origin); }

  private:
    struct Part {
        std::string origin;  // the folder that it was found in
        std::vector<std::string> rpath, runpath;
        std::size_t loader;
    };
    std::string expand(std::string_view text, const std::string& origin) const;
    std::vector<std::string> folders(std::string_view list, std::string_view separators,
                                     const std::string& origin) const;

    std::string lib_, platform_;
    std::vector<std::string> of_user_;  // LD_LIBRARY_PATH
    std::vector<Part> parts_;
};

}  // namespace chainio::probe
