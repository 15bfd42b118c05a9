#include "tools/chainc/deps.h"

namespace chainio::chainc {
namespace {

std::string escaped(std::string_view name) {
    std::string result;
    for (const char c : name) {
        if (c == ' ' || c == '#') result += '\\';
        if (c == '$') result += '$';
        result += c;
    }
    return result;
}

}  // namespace

std::string dependency_rule(const std::string& output, const FileLoader& loader) {
    std::string rule = escaped(output) + ":";
    for (const LoadedFile& file : loader.files()) {
        if (file.path != "-") rule += " \\\n  " + escaped(file.path);
    }
    rule += '\n';
    // A rule without a recipe for each import: deleting one then does not stop make before chainc can say what is
    // wrong.
    for (std::size_t i = 1; i < loader.files().size(); i++) rule += "\n" + escaped(loader.files()[i].path) + ":\n";
    return rule;
}

}  // namespace chainio::chainc
