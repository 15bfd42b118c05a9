#include "tools/chainc/source_map.h"

#include <nlohmann/json.hpp>

namespace chainio::chainc {
namespace {

using Json = nlohmann::ordered_json;

// Collects what has a line of the canonical form. Blocks nest at most as deep as the parser allows: in 256
// brackets and as many `else if`.
class Collector {
  public:
    explicit Collector(std::map<std::uint32_t, Span>& lines) : lines_(lines) {}

    void file(const ast::File& tree) {
        for (const ast::Item& item : tree.items) {
            if (const auto* chain = std::get_if<ast::Chain>(&item.node)) add_chain(*chain, item.span);
            if (const auto* service = std::get_if<ast::Service>(&item.node)) add_service(*service);
        }
    }

  private:
    void add(std::uint32_t canonical_line, const Span& span) {
        if (canonical_line != 0 && span.file != 0) lines_.try_emplace(canonical_line, span);
    }

    void add_chain(const ast::Chain& chain, const Span& span) {
        add(chain.canonical_line, chain.name.span.file != 0 ? chain.name.span : span);
        for (const ast::Step& step : chain.steps) {
            add(step.canonical_line, step.name.span.file != 0 ? step.name.span : step.span);
            block(step.body);
        }
        if (chain.done) block(*chain.done);
        block(chain.body);
    }

    void add_service(const ast::Service& service) {
        for (const ast::Handler& handler : service.handlers) {
            add(handler.canonical_line, handler.span);
            block(handler.body);
        }
    }

    void block(const ast::Block& b) {
        for (const ast::StmtPtr& s : b.stmts) {
            if (s) statement(*s);
        }
    }

    void statement(const ast::Stmt& s) {
        add(s.canonical_line, s.span);
        if (const auto* let = std::get_if<ast::Let>(&s.node)) {
            if (let->otherwise) statement(*let->otherwise);
        } else if (const auto* branch = std::get_if<ast::If>(&s.node)) {
            block(branch->yes);
            if (branch->no) block(*branch->no);
        } else if (const auto* when = std::get_if<ast::When>(&s.node)) {
            block(when->body);
        } else if (const auto* match = std::get_if<ast::Match>(&s.node)) {
            for (const ast::MatchArm& arm : match->arms) block(arm.body);
            if (match->otherwise) block(*match->otherwise);
        } else if (const auto* loop = std::get_if<ast::For>(&s.node)) {
            block(loop->body);
        }
    }

    std::map<std::uint32_t, Span>& lines_;
};

}  // namespace

SourceMap::SourceMap(const FileLoader& loader) {
    for (const LoadedFile& file : loader.files()) Collector(lines_[file.canonical_name]).file(*file.tree);
}

Span SourceMap::find(const std::string& canonical_name, std::uint32_t line) const {
    const auto file = lines_.find(canonical_name);
    if (file == lines_.end()) return {};
    auto after = file->second.upper_bound(line);
    if (after == file->second.begin()) return {};
    return std::prev(after)->second;
}

std::string SourceMap::to_json(const diag::Sources& sources) const {
    Json files = Json::array();
    for (const auto& [name, lines] : lines_) {
        Json rows = Json::array();
        std::string_view source;
        for (const auto& [line, span] : lines) {
            source = sources.name(span.file);
            rows.push_back({{"canonical", line}, {"line", span.line}, {"column", span.col}});
        }
        if (!rows.empty()) files.push_back({{"canonical", name}, {"source", source}, {"lines", std::move(rows)}});
    }
    const Json root{{"version", 1}, {"files", std::move(files)}};
    return root.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace chainio::chainc
