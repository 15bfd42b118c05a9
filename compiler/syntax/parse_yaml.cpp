#include "compiler/syntax/parse.h"
#include "compiler/syntax/yaml_read.h"

namespace chainio::syntax {

std::unique_ptr<ast::File> parse_yaml(FileId id, const diag::Sources& sources, diag::Diagnostics& diags) {
    auto file = std::make_unique<ast::File>();
    file->id = id;
    const std::string_view text = sources.text(id);
    std::vector<Comment> found;
    const std::optional<YamlNode> root = read_yaml(id, text, diags, found);
    if (!root) return file;
    CommentList comments(std::move(found));
    file->items = YamlReader(id, text, comments, diags, file->broken_names).items(*root);
    comments.take_rest(0, std::string_view::npos, file->closing_comments, !file->items.empty());
    return file;
}

}  // namespace chainio::syntax
