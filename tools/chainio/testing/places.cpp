#include "tools/chainio/testing/places.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <iterator>

namespace chainio::testing {

Places::Places(const ir::Module& module, const std::string& source_map) : names_(module.sources) {
    try {
        for (const auto& file : YAML::LoadFile(source_map)["files"]) {  // JSON is YAML as well
            Source& source = sources_[file["canonical"].as<std::string>()];
            source.name = file["source"].as<std::string>();
            for (const auto& row : file["lines"])
                source.lines[row["canonical"].as<std::uint32_t>()] = row["line"].as<std::uint32_t>();
        }
    } catch (const YAML::Exception&) {
        sources_.clear();  // a finished artifact has none
    }
}

std::string Places::of(const ir::Stmt& stmt) const {
    if (stmt.line.line == 0 || stmt.line.file >= names_.size()) return {};
    const std::string& name = names_[stmt.line.file];
    if (const auto source = sources_.find(name); source != sources_.end()) {
        const auto after = source->second.lines.upper_bound(stmt.line.line);
        if (after != source->second.lines.begin())
            return fmt::format("{}:{}", source->second.name, std::prev(after)->second);
    }
    return fmt::format("{}:{} of the canonical form (chainc --emit=chain)", name, stmt.line.line);
}

}  // namespace chainio::testing
