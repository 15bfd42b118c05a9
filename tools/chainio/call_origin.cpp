#include "tools/chainio/call_origin.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "compiler/diag/utf8.h"

namespace chainio::tool {
namespace {

constexpr std::uint32_t kMostReads = 4096;  // that are done again

// Without O_DIRECT, whatever the engine has them open with: blocks are read as they are asked for.
class Files {
  public:
    ~Files() {
        for (const int fd : fds_) close(fd);
    }
    std::optional<testing::FileView> open(const std::string& path) {
        const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        if (fd < 0) return std::nullopt;
        fds_.push_back(fd);
        const off_t size = lseek(fd, 0, SEEK_END);  // of a block device, too
        if (size < 0) return std::nullopt;
        return testing::FileView(fd, static_cast<std::uint64_t>(size));
    }

  private:
    std::vector<int> fds_;
};

}  // namespace

std::optional<testing::Origin> origin_of_call(const std::shared_ptr<const spec::Loaded>& spec, std::uint32_t chain,
                                              std::span<const Value> values, std::span<const std::string> paths,
                                              const Result& result) {
    if (result.hops > kMostReads) return std::nullopt;
    Files files;
    testing::CallInput input{.chain = chain, .files = {}, .args = {}};
    const auto& params = spec->module().chains[chain].params;
    for (std::size_t i = 0; i < params.size(); i++) {
        if (params[i].kind != ir::Param::Kind::file) {
            const bool is_bytes = params[i].kind == ir::Param::Kind::bytes;
            input.args.push_back({.is_bytes = is_bytes, .integer = values[i].scalar, .bytes = values[i].bytes});
            continue;
        }
        const auto file = files.open(paths[i]);
        if (!file) return std::nullopt;
        input.files.push_back(*file);
    }
    testing::Ended ended;
    const auto steps = testing::make_watched_steps(spec, ended);
    const auto outcome = testing::walk(spec->artifact(), *steps, input);
    if (!outcome || outcome->outcome != result.outcome) return std::nullopt;
    return testing::origin_of(spec->module(), *outcome, ended, "");
}

nlohmann::ordered_json origin_json(const testing::Origin& origin) {
    nlohmann::ordered_json json;
    if (!origin.step.empty()) json["step"] = origin.step;
    if (!origin.place.empty()) json["place"] = diag::escaped(origin.place);
    json["reads"] = origin.reads;
    if (origin.last)
        json["last_read"] = {{"file", origin.last->file}, {"at", origin.last->at}, {"for", origin.last->length}};
    return json;
}

}  // namespace chainio::tool
