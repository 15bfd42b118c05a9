// Notices that a name leads to another file than the one that was opened, or that bytes which were declared never to
// change did.
#pragma once
#include <sys/stat.h>

#include <memory>
#include <string>
#include <vector>

#include "tools/chainio-runtime/edition.h"
#include "tools/chainio-runtime/look.h"

namespace chainio::runtime_tool {

class FileWatch {
  public:
    struct Notice {
        bool changed = false;  // another file is there: it can be opened. Else the name leads nowhere
        std::string message;
    };
    // Nobody is told any more what a look that is under way finds.
    void look_after(const Edition& edition);
    bool empty() const { return files_.empty(); }
    // Once there are files, as look.h has them.
    bool begin() { return look_->begin(); }
    bool is_looking() const { return look_ != nullptr && look_->is_under_way(); }
    bool is_done() const { return look_ != nullptr && look_->is_done(); }
    int fd() const { return look_->fd(); }
    const std::string& at() const { return look_->at(); }
    // What has become of all files since the last look; each change is told once.
    std::vector<Notice> take();

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
    static void look_at(Watched& file, const Seen& now, std::vector<Notice>& notices);

    std::vector<Watched> files_;
    std::unique_ptr<Look> look_;
};

}  // namespace chainio::runtime_tool
