#include "compiler/syntax/yaml_tree.h"

#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <sstream>

#include "compiler/syntax/codes.h"
#include "compiler/syntax/tokens.h"

namespace chainio::syntax {
namespace {

// The bytes of a scalar beside the bytes of the file that they come from. Where the two cannot be brought together, the
// rest of the scalar is given the last place that is known.
class ScalarWalk {
  public:
    ScalarWalk(std::string_view source, std::size_t offset) : source_(source), at_(offset) {
        if (at_ < source_.size() && (source_[at_] == '"' || source_[at_] == '\'')) quote_ = source_[at_++];
        if (quote_ == 0 && at_ < source_.size() && (source_[at_] == '|' || source_[at_] == '>')) {
            at_ = std::min(source_.find('\n', at_), source_.size() - 1) + 1;
            block_ = true;
        }
    }

    // The offset in the file of each byte of `text`, and of the end.
    std::vector<std::size_t> run(std::string_view text) {
        std::vector<std::size_t> out;
        out.reserve(text.size() + 1);
        while (out.size() < text.size() && !lost_) step(text, out);
        while (out.size() < text.size()) out.push_back(at_);
        out.push_back(at_);
        return out;
    }
    std::size_t end() const { return quote_ != 0 && at_ < source_.size() && source_[at_] == quote_ ? at_ + 1 : at_; }

  private:
    static bool blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

    void step(std::string_view text, std::vector<std::size_t>& out) {
        const char wanted = text[out.size()];
        if (at_ >= source_.size()) {
            lost_ = true;
        } else if (quote_ == '"' && source_[at_] == '\\') {
            escape(out, text.size());
        } else if (quote_ == '\'' && source_.substr(at_, 2) == "''") {
            out.push_back(at_);
            at_ += 2;
        } else if (source_[at_] == wanted) {
            out.push_back(at_++);
            if (wanted == '\n') skip_indent();
        } else if (source_[at_] == '\n') {
            if (wanted == ' ') out.push_back(at_);
            ++at_;
            skip_indent();
        } else if (blank(source_[at_])) {
            ++at_;
        } else {
            lost_ = true;
        }
    }

    void skip_indent() {
        while (!block_ && at_ < source_.size() && blank(source_[at_])) ++at_;
    }

    void escape(std::vector<std::size_t>& out, std::size_t size) {
        const std::size_t begin = at_;
        const char kind = at_ + 1 < source_.size() ? source_[at_ + 1] : '\0';
        const std::size_t digits = kind == 'x' ? 2 : kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
        at_ = std::min(at_ + 2 + digits, source_.size());
        if (kind == '\n' || kind == '\r') {
            while (at_ < source_.size() && (blank(source_[at_]) || source_[at_] == '\n')) ++at_;
            return;
        }
        unsigned long point = 0;
        for (std::size_t i = begin + 2; i < at_; ++i) point = point * 16 + digit(source_[i]);
        if (kind == 'N' || kind == '_') point = 0x80;
        if (kind == 'L' || kind == 'P') point = 0x2028;
        const std::size_t bytes = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
        for (std::size_t i = 0; i < bytes && out.size() < size; ++i) out.push_back(begin);
    }

    static unsigned digit(char c) {
        if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
        return (static_cast<unsigned>(c) | 0x20U) - 'a' + 10;
    }

    std::string_view source_;
    std::size_t at_;
    char quote_ = 0;
    bool block_ = false, lost_ = false;
};

// Whether the text ends within the quotes that it begins with: yaml-cpp takes its end for the closing one.
bool is_open_quote(std::string_view text) {
    if (!text.starts_with('"') && !text.starts_with('\'')) return false;
    for (std::size_t i = 1; i < text.size(); ++i) {
        const bool is_pair = text[0] == '"' ? text[i] == '\\' : text.substr(i).starts_with("''");
        if (is_pair)
            ++i;
        else if (text[i] == text[0])
            return false;
    }
    return true;
}

class Lines {
  public:
    explicit Lines(std::string_view text) {
        starts_.push_back(0);
        for (std::size_t i = 0; i < text.size(); ++i) {
            if (text[i] == '\n') starts_.push_back(i + 1);
        }
    }
    Place at(std::size_t offset) const {
        const auto line = std::upper_bound(starts_.begin(), starts_.end(), offset) - 1;
        return {static_cast<std::uint32_t>(line - starts_.begin() + 1), static_cast<std::uint32_t>(offset - *line + 1)};
    }
    // Whether a tab stands before what the line says.
    bool is_indented_with_tab(std::string_view text, std::uint32_t line) const {
        const std::string_view rest = text.substr(starts_[line - 1]);
        return rest.substr(0, rest.find_first_not_of(" \t")).contains('\t');
    }

  private:
    std::vector<std::size_t> starts_;
};

// Builds the tree from the events of yaml-cpp.
class TreeBuilder final : public YAML::EventHandler {
  public:
    TreeBuilder(FileId file, std::string_view text, const Lines& lines, std::size_t shift, diag::Diagnostics& diags)
        : file_(file), text_(text), lines_(lines), shift_(shift), diags_(diags) {}

    std::optional<YamlNode> root;

    void OnDocumentStart(const YAML::Mark&) override {}
    void OnDocumentEnd() override {}
    void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
        YamlNode node = make(mark, YamlNode::Kind::scalar, anchor, "");
        node.null = true;
        node.places = {lines_.at(node.offset)};
        node.end = node.offset;
        add(std::move(node));
    }
    void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
        YamlNode node = make(mark, YamlNode::Kind::scalar, 1, "");
        node.refused = true;
        node.null = true;
        node.places = {lines_.at(node.offset)};
        add(std::move(node));
    }
    void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  const std::string& value) override {
        YamlNode node = make(mark, YamlNode::Kind::scalar, anchor, tag);
        node.text = value;
        if (is_open_quote(text_.substr(node.offset)))
            diags_.report(code::yaml_syntax, node.span, "this quoted text has no end",
                          std::string("close it with ") + text_[node.offset]);
        ScalarWalk walk(text_, node.offset);
        for (const std::size_t offset : walk.run(value)) node.places.push_back(lines_.at(offset));
        node.end = walk.end();
        const Place last = lines_.at(node.end);
        node.span.end_line = last.line;
        node.span.end_col = last.col;
        add(std::move(node));
    }
    void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                         YAML::EmitterStyle::value) override {
        open_.push_back({make(mark, YamlNode::Kind::list, anchor, tag), std::nullopt});
    }
    void OnSequenceEnd() override { close(); }
    void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                    YAML::EmitterStyle::value) override {
        open_.push_back({make(mark, YamlNode::Kind::map, anchor, tag), std::nullopt});
    }
    void OnMapEnd() override { close(); }

  private:
    struct Open {
        YamlNode node;
        std::optional<YamlNode> key;  // of a map: read, its value is not
    };

    YamlNode make(const YAML::Mark& mark, YamlNode::Kind kind, YAML::anchor_t anchor, const std::string& tag) {
        YamlNode node;
        node.kind = kind;
        node.offset = std::min(static_cast<std::size_t>(std::max(mark.pos, 0)) + shift_, text_.size());
        const Place place = lines_.at(node.offset);
        node.span = {file_, place.line, place.col, place.line, place.col + 1};
        if (anchor != 0) {
            diags_.report(code::yaml_alias, node.span, "anchors and aliases are not part of the form",
                          "write the value out, or use `const`, `fn` and `import`");
        } else if (!tag.empty() && tag != "?" && tag != "!") {
            diags_.report(code::yaml_wrong_kind, node.span, "the tag `" + tag + "` means nothing here", "remove it");
        }
        return node;
    }

    void add(YamlNode node) {
        if (open_.empty()) {
            root = std::move(node);
            return;
        }
        Open& top = open_.back();
        if (top.node.kind == YamlNode::Kind::list) {
            top.node.items.push_back(std::move(node));
        } else if (!top.key) {
            top.key = std::move(node);
        } else {
            top.node.pairs.push_back({std::move(*top.key), std::move(node)});
            top.key.reset();
        }
    }

    void close() {
        YamlNode node = std::move(open_.back().node);
        open_.pop_back();
        add(std::move(node));
    }

    FileId file_;
    std::string_view text_;
    const Lines& lines_;
    std::size_t shift_;  // bytes that yaml-cpp does not count: a byte order mark
    diag::Diagnostics& diags_;
    std::vector<Open> open_;
};

struct Extent {
    std::size_t begin, end;
};

void collect(const YamlNode& node, std::vector<Extent>& out) {
    if (node.kind == YamlNode::Kind::scalar && node.end > node.offset) out.push_back({node.offset, node.end});
    for (const YamlNode& each : node.items) collect(each, out);
    for (const auto& [key, value] : node.pairs) {
        collect(key, out);
        collect(value, out);
    }
}

// Comments are what begins with `#` behind white space and outside of every scalar: the events do not tell of them.
std::vector<Comment> find_comments(std::string_view text, const Lines& lines, std::vector<Extent> scalars) {
    std::sort(scalars.begin(), scalars.end(), [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
    std::vector<Comment> out;
    std::size_t next = 0;
    unsigned newlines = 2;
    bool own_line = true;
    for (std::size_t i = 0; i < text.size(); ++i) {
        while (next < scalars.size() && scalars[next].end <= i) ++next;
        if (next < scalars.size() && scalars[next].begin <= i) {
            i = scalars[next].end - 1;
            newlines = 0;
            own_line = false;
        } else if (text[i] == '\n') {
            ++newlines;
            own_line = true;
        } else if (text[i] == '#' && (own_line || text[i - 1] == ' ' || text[i - 1] == '\t')) {
            const std::size_t end = std::min(text.find_first_of("\r\n", i), text.size());
            std::string_view body = text.substr(i + 1, end - i - 1);
            if (body.starts_with(' ')) body.remove_prefix(1);
            while (body.ends_with(' ') || body.ends_with('\t')) body.remove_suffix(1);
            out.push_back({.text = std::string(body),
                           .offset = i,
                           .line = lines.at(i).line,
                           .own_line = own_line,
                           .blank_before = newlines >= 2 && !out.empty()});
            i = end - 1;
            newlines = 0;
        } else if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r') {
            newlines = 0;
            own_line = false;
        }
    }
    return out;
}

}  // namespace

std::optional<YamlNode> read_yaml(FileId file, std::string_view text, diag::Diagnostics& diags,
                                  std::vector<Comment>& comments) {
    if (text.size() > max_text) {
        diags.report(code::too_large, {file, 1, 1, 1, 2}, "the text is larger than 4 MiB",
                     "split it into files and `import` them");
        return std::nullopt;
    }
    const std::size_t shift = text.starts_with("\xef\xbb\xbf") ? 3 : 0;
    const Lines lines(text);
    TreeBuilder builder(file, text, lines, shift, diags);
    try {
        std::istringstream stream{std::string(text)};
        YAML::Parser parser(stream);
        parser.HandleNextDocument(builder);
        std::optional<YamlNode> first = std::move(builder.root);
        builder.root.reset();
        if (parser.HandleNextDocument(builder)) {
            const Span at = builder.root ? builder.root->span : Span{file, 1, 1, 1, 2};
            diags.report(code::yaml_documents, at, "the file holds more than one YAML document",
                         "remove the `---` between them, or use `import`");
        }
        std::vector<Extent> scalars;
        if (first) collect(*first, scalars);
        comments = find_comments(text, lines, std::move(scalars));
        return first;
    } catch (const YAML::DeepRecursion& deep) {
        const Place place =
            lines.at(std::min(static_cast<std::size_t>(std::max(deep.mark.pos, 0)) + shift, text.size()));
        diags.report(code::too_deep, {file, place.line, place.col, place.line, place.col + 1},
                     "the YAML is nested too deep",
                     "move the inner part into a function, a chain or a file of its own");
    } catch (const YAML::Exception& error) {
        const Place place =
            lines.at(std::min(static_cast<std::size_t>(std::max(error.mark.pos, 0)) + shift, text.size()));
        // Before an entry of a list the parser takes a tab, and complains about what follows.
        const bool tab = error.msg.contains("tab") || lines.is_indented_with_tab(text, place.line);
        diags.report(code::yaml_syntax, {file, place.line, place.col, place.line, place.col + 1},
                     "this is not YAML: " + error.msg,
                     tab ? "indent with blanks"
                         : "values with `: ` or ` #` in them, or that begin with one of [ { & * ! | > ' \" % @, stand "
                           "in quotes");
    }
    return std::nullopt;
}

}  // namespace chainio::syntax
