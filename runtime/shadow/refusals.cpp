#include "runtime/shadow/refusals.h"

#include "compiler/diag/utf8.h"

namespace chainio::shadow {

const char* refusal_text(FileRefusal why) {
    switch (why) {
        case FileRefusal::no_path: return "its opening was not seen";
        case FileRefusal::cannot_open: return "it cannot be opened by its path";
        case FileRefusal::not_regular: return "it is not a regular file";
        case FileRefusal::made_when_read: return "the kernel makes it when it is read, as those of /proc and /sys";
        case FileRefusal::replaced: return "its path leads to another file by now";
        case FileRefusal::leaves_root: return "the path is no path under the class's root";
        case FileRefusal::no_match: return "the path does not match the class's pattern";
        case FileRefusal::elsewhere:
            return "its path leads out of the class by a link or `..`, which ChainIO as root does not follow; name in "
                   "the spec where it leads";
        case FileRefusal::no_descriptors:
            return "ChainIO has as many files open as it may (ulimit -n), or the machine has (fs.file-max)";
        case FileRefusal::no_proc:
            return "/proc is not mounted, without which ChainIO as root does not see where a path leads";
        case FileRefusal::bad_header: return "its first bytes are not the header that the class declares";
    }
    return "";
}

// Of a long one its end: that is where what is wrong of it mostly stands.
void Refusals::set_example(FileRefusal why, std::string_view path) {
    const bool cut = path.size() > kLongestExample;
    if (cut) path.remove_prefix(path.size() - kLongestExample);
    examples_[static_cast<std::size_t>(why)] = (cut ? "…" : "") + diag::escaped(path);
}

std::vector<std::string> Refusals::notes() const {
    std::vector<std::string> notes;
    for (std::size_t i = 0; i < files_.size(); i++) {
        const std::size_t count = files_[i].size();
        if (count == 0) continue;
        const std::string how_many = count == 1       ? "a file was"
                                     : count == kMost ? std::to_string(count) + " files and more were each"
                                                      : std::to_string(count) + " files were each";
        std::string note = how_many + " left alone: " + refusal_text(static_cast<FileRefusal>(i));
        if (!examples_[i].empty()) note += (count == 1 ? " ('" : " (one of them: '") + examples_[i] + "')";
        notes.push_back(std::move(note));
    }
    return notes;
}

}  // namespace chainio::shadow
