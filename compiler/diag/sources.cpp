// Source texts and their lines.
#include "compiler/diag/diag.h"

namespace chainio::diag {

FileId Sources::add(std::string name, std::string text) {
    Source& source = sources_.emplace_back(Source{std::move(name), std::move(text), {0}});
    for (std::size_t i = 0; i < source.text.size(); i++) {
        if (source.text[i] == '\n') source.line_starts.push_back(i + 1);
    }
    return static_cast<FileId>(sources_.size());
}

std::string_view Sources::name(FileId id) const {
    if (id == 0 || id > sources_.size()) return {};
    return sources_[id - 1].name;
}

std::string_view Sources::text(FileId id) const {
    if (id == 0 || id > sources_.size()) return {};
    return sources_[id - 1].text;
}

std::string_view Sources::line(FileId id, std::uint32_t line) const {
    if (id == 0 || id > sources_.size()) return {};
    const Source& source = sources_[id - 1];
    if (line == 0 || line > source.line_starts.size()) return {};
    const std::size_t begin = source.line_starts[line - 1];
    std::size_t end = line < source.line_starts.size() ? source.line_starts[line] - 1 : source.text.size();
    if (end > begin && source.text[end - 1] == '\r') end--;
    return std::string_view(source.text).substr(begin, end - begin);
}

}  // namespace chainio::diag
