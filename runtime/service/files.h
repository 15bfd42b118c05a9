// The files that handlers name, `CLASS["name"]`, among those that were opened at the start.
#pragma once
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/engine/engine.h"

namespace chainio::service {

struct NamedFile {
    std::string path;
    std::uint32_t file_class = 0;
    engine::FileHandle handle = 0;
};

class Files {
  public:
    explicit Files(std::vector<NamedFile> files) : files_(std::move(files)) {}
    // By path or by its last part; without a name the only file of the class.
    std::optional<engine::FileHandle> find(std::uint32_t file_class, std::string_view name) const;
    std::size_t count(std::uint32_t file_class, std::string_view name) const;  // that it may mean
    const std::vector<NamedFile>& all() const { return files_; }

  private:
    static bool is_named(const NamedFile& file, std::uint32_t file_class, std::string_view name);
    std::vector<NamedFile> files_;
};

// What a handler's calls name by a literal and `files` does not have, or has more than once; empty when there is
// nothing.
std::string missing_file(const ir::Module& module, std::uint32_t program, const Files& files);

// The same of all handlers of a service by tcp or by udp.
std::string missing_file(const ir::Module& module, const ir::Service& service, bool tcp, const Files& files);

}  // namespace chainio::service
