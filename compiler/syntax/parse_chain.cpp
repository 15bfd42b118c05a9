#include "compiler/syntax/build.h"
#include "compiler/syntax/parse.h"
#include "compiler/syntax/reader.h"

namespace chainio::syntax {

std::unique_ptr<ast::File> parse_chain(FileId id, const diag::Sources& sources, diag::Diagnostics& diags) {
    auto file = std::make_unique<ast::File>();
    file->id = id;
    Reader reader(id, sources.text(id), {}, diags);
    Builder builder(reader.comments(), reader.tokens(), diags);
    reader.read_items([&](grammar::ChainParser::ItemContext* tree) { file->items.push_back(builder.item(tree)); },
                      file->broken_names);
    reader.comments().take_rest(0, std::string_view::npos, file->closing_comments);
    return file;
}

}  // namespace chainio::syntax
