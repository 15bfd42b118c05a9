#include "tools/chainc/spec_names.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "compiler/diag/diag.h"

namespace chainio::chainc {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostNames = 1000;

std::vector<std::string> names_below(const std::string& folder) {
    std::vector<std::string> names;
    std::error_code error;
    for (auto entry = fs::recursive_directory_iterator(folder, error); entry != fs::recursive_directory_iterator();
         entry.increment(error)) {
        if (error || names.size() > kMostNames) break;
        if (entry->path().extension() == ".chain") names.push_back(fs::relative(entry->path(), folder, error).string());
    }
    return names;
}

}  // namespace

std::string meant_spec(const std::string& name, const std::string& library) {
    const std::vector<std::string> names = names_below(library);
    const std::string whole = name + ".chain";
    if (std::ranges::find(names, whole) != names.end()) return "did you mean `" + whole + "`?";
    const auto near = diag::nearest(name, names);
    return near ? "did you mean `" + *near + "`?" : "";
}

}  // namespace chainio::chainc
