// What could not be read ahead, for the report: ranges of fetches and of walks.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>

namespace chainio::shadow {

class Failures {
  public:
    // Ranges of a file (its key); `error` is an errno, or 0 of what came from a file that has changed meanwhile.
    void add(std::uint32_t ranges, int error, std::uint64_t file) {
        if (ranges == 0) return;
        Kind& kind = error == 0 ? changed_ : failed_;
        kind.ranges += ranges;
        kind.file = file;
        kind.error = error;
    }
    struct Kind {
        std::uint64_t ranges = 0, file = 0;
        int error = 0;  // of the last one
    };
    const Kind& failed() const { return failed_; }
    const Kind& changed() const { return changed_; }

    // Of what there is; `path` is that of Kind::file.
    static std::string note(const Kind& kind, const std::string& path) {
        const bool one = kind.ranges == 1;
        std::string text = std::to_string(kind.ranges) + (one ? " range" : " ranges");
        if (kind.error != 0) {
            text += " could not be read";
        } else {
            text += one ? " was not kept, since its file changed meanwhile"
                        : " were not kept, since their files changed meanwhile";
        }
        text += (one ? " (" : " (the last of ") + path + ")";
        return kind.error != 0 ? text + ": " + std::strerror(kind.error) : text;
    }

  private:
    Kind failed_, changed_;
};

}  // namespace chainio::shadow
