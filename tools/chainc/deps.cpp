#include "tools/chainc/deps.h"

namespace chainio::chainc {
namespace {

// make takes a backslash for itself, except in front of what it escapes: there it halves the whole run of them.
std::string escaped(std::string_view name) {
    std::string result;
    std::size_t backslashes = 0;
    for (const char c : name) {
        if (c == ' ' || c == '\t' || c == '#' || c == ':') result.append(backslashes + 1, '\\');
        if (c == '$') result += '$';
        backslashes = c == '\\' ? backslashes + 1 : 0;
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
