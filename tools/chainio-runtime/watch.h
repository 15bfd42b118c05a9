// Notices that a name leads to another file than the one that was opened, or that bytes which were declared never to
// change did.
#pragma once
#include <sys/stat.h>

#include <string>
#include <vector>

#include "tools/chainio-runtime/edition.h"

namespace chainio::runtime_tool {

class FileWatch {
  public:
    struct Notice {
        bool changed = false;  // another file is there: it can be opened. Else the name leads nowhere
        std::string message;
    };
    void look_after(const Edition& edition);
    bool empty() const { return files_.empty(); }
    // What has become of all files since the last look; each change is told once.
    std::vector<Notice> look();

  private:
    struct Watched {
        std::string path;
        bool immutable = false, gone = false;
        struct stat seen{};
        // Where the file that was seen last is not the one that was opened, nobody holds it, and the next one under the
        // name may have its number: only the time at which it was made tells the two apart.
        bool told = false;
        timespec made{};
    };
    std::vector<Watched> files_;
};

}  // namespace chainio::runtime_tool
