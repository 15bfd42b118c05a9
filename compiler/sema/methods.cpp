// Calls: built-in functions, and the methods of integers, blocks and bytes.
#include <algorithm>
#include <functional>

#include "compiler/sema/checker.h"

namespace chainio::sema {

using checked::ExprKind;
using checked::Type;
using checked::TypeKind;

namespace {

const std::vector<std::string> kFunctions{"min", "max", "crc32c", "xxh64", "fnv1a"};
const std::vector<std::string> kIntegerMethods{"as"};
const std::vector<std::string> kBytesMethods{"records", "split",  "byte",    "uint_be", "uint_le",
                                             "int_be",  "int_le", "decimal", "text",    "find"};
const std::vector<std::string> kArrayMethods{"count", "lower_bound", "upper_bound", "find",   "filter",
                                             "sum",   "min",         "max",         "project"};

bool is_one_of(const std::vector<std::string>& names, const std::string& name) {
    return std::ranges::find(names, name) != names.end();
}

// What is no function here, and is one elsewhere. A name that is nearly this one would be something else.
std::optional<std::string> function_elsewhere(const std::string& name, std::size_t given) {
    static const std::vector<std::string> lengths{"len", "length", "size", "sizeof", "strlen"};
    if (name == "crc32")
        return "nothing computes the CRC-32 of zlib, gzip and ZIP: leave it to the caller; `crc32c` is another sum";
    if (is_one_of(lengths, name)) return "bytes and arrays have `.length`, views `.size`";
    const std::string call = name + (given > 1 ? "(…)`" : "()`");
    if (is_one_of(kArrayMethods, name)) return "it is a method of arrays: `a." + call;
    if (is_one_of(kBytesMethods, name)) return "it is a method of bytes: `b." + call;
    return std::nullopt;
}

// Methods that other languages have, and how the same is written here.
std::optional<std::string> method_of_others(const std::string& name, TypeKind kind) {
    static const std::vector<std::string> firsts{"first", "front", "head"}, lasts{"last", "back", "tail"};
    static const std::vector<std::string> maps{"map", "select", "collect", "transform"};
    static const std::vector<std::string> finds{"index", "indexOf", "index_of", "contains", "includes", "find_byte"};
    static const std::vector<std::string> begins{"startsWith", "starts_with", "startswith", "has_prefix"};
    static const std::vector<std::string> ends{"endsWith", "ends_with", "endswith", "has_suffix"};
    if (kind == TypeKind::array) {
        if (is_one_of(firsts, name)) return "the first element is `a[0]`";
        if (is_one_of(lasts, name)) return "the last element is `a[a.count() - 1]`";
        if (is_one_of(maps, name))
            return "`a.project(x => …)` emits a value of each element; `sum`, `min` and `max` take such a function, "
                   "too";
    }
    if (kind == TypeKind::bytes) {
        if (is_one_of(finds, name))
            return "`b.find(\"/\")` says where a byte is; a slice is compared: `b[i..i + 2] == \"ab\"`";
        if (is_one_of(begins, name)) return "compare a slice: `b.length >= 2 && b[..2] == \"ab\"`";
        if (is_one_of(ends, name)) return "compare a slice: `b.length >= 2 && b[b.length - 2..] == \"ab\"`";
    }
    return std::nullopt;
}

// `b.u32le(8)`, where a number is read from a slice.
std::optional<std::string> number_method(const std::string& name) {
    const auto scalar = parse_scalar(name);
    if (!scalar) return std::nullopt;
    if (scalar->bits == 8 && !scalar->is_signed) return "a byte is `b[i]`";
    const std::string order = scalar->order == Scalar::Order::big ? "be" : "le";
    return "a number is read from a slice: `b[i..i + " + std::to_string(scalar->bits / 8) + "]." +
           (scalar->is_signed ? "int_" : "uint_") + order + "()`";
}

}  // namespace

Value Checker::call(const ast::Expr& e, const ast::Call& n) {
    return n.receiver ? method_call(e, n) : plain_call(e, n);
}

// The number of arguments. The caller looks at what they are: `max N`, a lambda and a key are no values.
bool Checker::counted(const ast::Call& n, std::size_t low, std::size_t high, const std::string& form) {
    if (n.args.size() < low || n.args.size() > high) {
        error(argument_count, n.callee.span,
              "`" + n.callee.text + "` takes " +
                  (low == high ? std::to_string(low) : std::to_string(low) + " to " + std::to_string(high)) +
                  (high == 1 ? " argument" : " arguments") + ", and " + std::to_string(n.args.size()) +
                  (n.args.size() == 1 ? " is given" : " are given"),
              "write `" + form + "`");
        return false;
    }
    return true;
}

// The arguments of what takes values alone.
bool Checker::arguments(const ast::Call& n, std::size_t low, std::size_t high, const std::string& form) {
    if (!counted(n, low, high, form)) return false;
    for (const ast::Arg& arg : n.args) {
        if (is_plain(arg)) continue;
        const bool unread = arg.lambda ? arg.lambda->param.text.empty() : !arg.by && !arg.value;  // and reported
        if (unread) {
            failed_ = true;
            return false;
        }
        error(bad_argument,
              arg.by       ? arg.by->span
              : arg.lambda ? arg.lambda->param.span
                           : arg.value->span,
              "`" + n.callee.text + "` takes values, and this is " +
                  (arg.is_max  ? "a bound"
                   : arg.value ? "the key of an element"
                               : "a function of an element"),
              "write `" + form + "`");
        return false;
    }
    return true;
}

Value Checker::plain_call(const ast::Expr& e, const ast::Call& n) {
    const std::string& name = n.callee.text;
    if (name.empty()) {
        failed_ = true;
        return {};
    }
    if (Symbol* symbol = find(*env_.scope, name)) {
        symbol->used = true;
        if (symbol->kind == SymbolKind::fn) return call_fn(symbol->index, n, e.span);
        if (symbol->kind == SymbolKind::chain) return call_chain(symbol->index, n, e.span);
        if (name != "min" && name != "max")
            return symbol->kind == SymbolKind::constant ? wrong(int_constant(0, e.span), n.callee.span, "a function",
                                                                "what is called", "remove the arguments")
                                                        : symbol_value(*symbol, n.callee.span);
    }
    if (name == "min" || name == "max") return min_max(e, n, name == "max");
    if (name == "crc32c") return hash_call(e, n, ir::HashAlgo::crc32c);
    if (name == "xxh64") return hash_call(e, n, ir::HashAlgo::xxh64);
    if (name == "fnv1a") return hash_call(e, n, ir::HashAlgo::fnv1a);
    if (name == "range") {
        error(pipeline_misused, e.span, "`range` stands only in `for i in range(lo, hi)`", "loop over it");
        return {};
    }
    failed_ = true;
    if (env_.scope->is_broken(name) || diags_.reported_at(n.callee.span)) return {};
    if (const auto elsewhere = function_elsewhere(name, n.args.size())) {
        error(unknown_function, n.callee.span, "there is no function `" + name + "`", *elsewhere);
        return {};
    }
    std::vector<std::string> names = names_of(*env_.scope, SymbolKind::fn);
    names.insert(names.end(), kFunctions.begin(), kFunctions.end());
    for (auto& chain : names_of(*env_.scope, SymbolKind::chain)) names.push_back(chain);
    error(unknown_function, n.callee.span, "there is no function `" + name + "`",
          suggestion(name, names, foreign_word_hint(name).value_or("declare it: `fn " + name + "(…) = …`")));
    return {};
}

// min and max of two: the larger is chosen by a comparison, each side evaluated once.
Value Checker::min_max(const ast::Expr& e, const ast::Call& n, bool is_max) {
    if (!arguments(n, 2, 2, n.callee.text + "(a, b)")) return {};
    Value a = integer(*n.args[0].value, "an argument of `" + n.callee.text + "`"),
          b = integer(*n.args[1].value, "an argument of `" + n.callee.text + "`");
    ast::Unit unit = ast::Unit::none;
    if (!a || !b || !join_units(a, b, checked::Binary::add, e.span, unit) || !unify(a, b, e.span)) return {};
    if (a.expr->kind == ExprKind::int_const && b.expr->kind == ExprKind::int_const) {
        Value less = fold_binary(checked::Binary::lt, clone(a), clone(b), e.span);
        const Type wider = a.expr->type.bits < b.expr->type.bits ? b.expr->type : a.expr->type;
        return widened((less.expr->value != 0) == is_max ? std::move(b) : std::move(a), wider);
    }
    settle(a);
    settle(b);
    const std::uint64_t most = is_max ? std::max(largest(a), largest(b)) : std::min(largest(a), largest(b));
    checked::ExprPtr first_a, first_b;
    a = name_local(std::move(a), "a", &first_a);
    b = name_local(std::move(b), "b", &first_b);
    Value out =
        make(ExprKind::cond,
             {TypeKind::integer, std::max(a.expr->type.bits, b.expr->type.bits), a.expr->type.is_signed}, e.span);
    out.unit = unit;
    if (!a.expr->type.is_signed) out.most = most;
    Value test = make(ExprKind::binary, {TypeKind::boolean}, e.span);
    test.expr->index = static_cast<std::uint32_t>(is_max ? checked::Binary::lt : checked::Binary::le);
    test.expr->kids.push_back(clone(*a.expr));
    test.expr->kids.push_back(clone(*b.expr));
    out.expr->kids.push_back(std::move(test.expr));
    out.expr->kids.push_back(clone(is_max ? *b.expr : *a.expr));
    out.expr->kids.push_back(clone(is_max ? *a.expr : *b.expr));
    out = wrap(std::move(out), b, std::move(first_b));
    return wrap(std::move(out), a, std::move(first_a));
}

// `first` is computed once, into the local that `named` reads, around `body`.
Value Checker::wrap(Value body, const Value& named, checked::ExprPtr first) {
    Lets lets;
    if (first) lets.emplace_back(named.expr->index, std::move(first));
    return wrap(std::move(body), std::move(lets));
}

// Likewise of several. They are one node, however many a function has: the checker and the lowering recurse along
// nodes.
Value Checker::wrap(Value body, Lets lets) {
    if (!body || lets.empty()) return body;
    Value let = make(ExprKind::let_in, body.expr->type, body.expr->span);
    let.unit = body.unit;
    let.place = body.place;
    let.exact = body.exact;
    let.most = body.most;
    let.facts = body.facts;
    let.chosen = body.chosen;
    let.flexible = body.flexible;
    let.mask = body.mask;
    for (auto& [local, value] : lets) {
        let.expr->locals.push_back(local);
        let.expr->kids.push_back(std::move(value));
    }
    let.expr->kids.push_back(std::move(body.expr));
    return let;
}

Value Checker::hash_call(const ast::Expr& e, const ast::Call& n, ir::HashAlgo algo) {
    if (!arguments(n, 1, 2, n.callee.text + "(bytes, seed)")) return {};
    Value data = bytes(*n.args[0].value, "what is hashed");
    Value seed = n.args.size() == 2 ? unsigned_integer(*n.args[1].value, "the seed") : int_constant(0, e.span);
    if (!data || !seed) return {};
    const std::uint8_t bits = algo == ir::HashAlgo::crc32c ? 32 : 64;
    Value out = make(ExprKind::hash, {TypeKind::integer, bits, false}, e.span);
    out.expr->index = static_cast<std::uint32_t>(algo);
    out.expr->kids.push_back(std::move(data.expr));
    out.expr->kids.push_back(std::move(seed.expr));
    return out;
}

Value Checker::method_call(const ast::Expr& e, const ast::Call& n) {
    if (n.callee.text.empty()) {
        failed_ = true;
        return {};
    }
    bool handled = false;
    Value special = block_method(e, n, &handled);
    if (handled) return special;
    Value receiver = any(*n.receiver);
    if (!receiver) return {};
    if (receiver.expr->type.optional) {
        error(optional_unused, n.receiver->span, "this value may be absent", absent_hint());
        return {};
    }
    switch (receiver.expr->type.kind) {
        case TypeKind::integer: return integer_method(std::move(receiver), e, n);
        case TypeKind::bytes: return bytes_method(std::move(receiver), e, n);
        case TypeKind::array: return array_method(std::move(receiver), e, n);
        default: return unknown_method_of(receiver, n);
    }
}

// Calls whose receiver is not a value: an import's functions and chains, `block`, and a shadow chain's event.
Value Checker::block_method(const ast::Expr& e, const ast::Call& n, bool* handled) {
    *handled = true;
    const bool literal = std::holds_alternative<ast::BlockLit>(n.receiver->node);
    const Binding* event = literal ? nullptr : event_of(*n.receiver);
    if (literal || event) {
        if (n.callee.text == "record") {
            if (!arguments(n, 1, 2, "block.record(R, offset)") || !need_block(e.span)) return {};
            auto index = record_named(*n.args[0].value);
            Value at =
                n.args.size() == 2 ? offset_value(*n.args[1].value, "the offset of a record") : int_constant(0, e.span);
            if (!index || !at) return {};
            return view_at(std::move(at), *index, e.span);
        }
        *handled = false;
        return {};
    }
    if (const auto* name = std::get_if<ast::NameRef>(&n.receiver->node); name && !lookup(name->name.text)) {
        Symbol* symbol = find(*env_.scope, name->name.text);
        if (symbol && symbol->kind == SymbolKind::module) return imported_call(*symbol, e, n);
        if (symbol && symbol->kind == SymbolKind::files && n.callee.text == "sibling") {
            error(wrong_kind, e.span, "a file is not a value", "use it as the target of `prefetch`");
            return {};
        }
    }
    *handled = false;
    return {};
}

Value Checker::imported_call(Symbol& module, const ast::Expr& e, const ast::Call& n) {
    module.used = true;
    Instance& inside = instances_[module.index];
    Symbol* member = find(inside, n.callee.text);
    if (member) member->used = true;
    if (member && member->kind == SymbolKind::fn) return call_fn(member->index, n, e.span);
    if (member && member->kind == SymbolKind::chain) return call_chain(member->index, n, e.span);
    failed_ = true;
    if (member) return symbol_value(*member, n.callee.span);
    if (inside.is_broken(n.callee.text)) return {};
    error(unknown_member, n.callee.span,
          "`" + std::string(module.name) + "` has no function or chain `" + n.callee.text + "`",
          suggestion(n.callee.text, names_of(inside, std::nullopt), "look at what \"" + inside.name + "\" declares"));
    return {};
}

Value Checker::view_at(Value offset, std::uint32_t index, Span span) {
    if (!record(index, span)) return {};
    Type type{TypeKind::view};
    type.record = index;
    Value out = make(ExprKind::view, type, span);
    settle(offset);
    out.expr->kids.push_back(std::move(offset.expr));
    return out;
}

Value Checker::integer_method(Value receiver, const ast::Expr& e, const ast::Call& n) {
    if (n.callee.text != "as") return unknown_method_of(receiver, n);
    if (!arguments(n, 1, 1, "offset.as(Record)")) return {};
    auto index = record_named(*n.args[0].value);
    if (!index) return {};
    if (receiver.expr->type.is_signed) {
        error(mixed_signedness, n.receiver->span, "an offset is unsigned, and this is signed",
              "convert it: `(…) as u64`");
        return {};
    }
    if (receiver.unit == ast::Unit::time) {
        error(unit_mismatch, n.receiver->span, "an offset is a size, and this is a time", "give a number of bytes");
        return {};
    }
    if (!need_block(e.span)) return {};
    return view_at(std::move(receiver), *index, e.span);
}

// The record that an argument names: `Node`, or `bt.Node`.
std::optional<std::uint32_t> Checker::record_named(const ast::Expr& e) {
    if (const auto* name = std::get_if<ast::NameRef>(&e.node)) return record_named(ast::QualifiedName{{}, name->name});
    if (const auto* access = std::get_if<ast::FieldAccess>(&e.node)) {
        if (const auto* base = std::get_if<ast::NameRef>(&access->base->node))
            return record_named(ast::QualifiedName{base->name, access->field});
    }
    error(bad_argument, e.span, "the name of a record is wanted here", "write `Node`, or `import.Node`");
    return std::nullopt;
}

Value Checker::bytes_method(Value receiver, const ast::Expr& e, const ast::Call& n) {
    const std::string& name = n.callee.text;
    if (name == "records") return records_of(std::move(receiver), n, e.span);
    if (name == "split") return split(std::move(receiver), n, e.span);
    if (name == "text") return text_match(std::move(receiver), n, e.span);
    if (name == "byte") {
        if (!arguments(n, 1, 1, "b.byte(i)")) return {};
        Value at = count_value(*n.args[0].value, "an index");
        if (!at) return {};
        Value out = make(ExprKind::byte_at, {TypeKind::integer, 8, false}, e.span);
        out.expr->kids.push_back(std::move(receiver.expr));
        out.expr->kids.push_back(std::move(at.expr));
        return out;
    }
    if (name == "uint_be" || name == "uint_le" || name == "int_be" || name == "int_le")
        return int_of_bytes(std::move(receiver), n, e.span, name.ends_with("be"), name.starts_with("int"));
    if (name == "decimal") {
        if (!arguments(n, 0, 0, "b.decimal()")) return {};
        Value out = make(ExprKind::decimal_of_bytes, {TypeKind::integer}, e.span);
        out.expr->kids.push_back(std::move(receiver.expr));
        return out;
    }
    if (name == "find") return byte_found(std::move(receiver), n, e.span);
    return unknown_method_of(receiver, n);
}

// `b.find("/")`, `b.find(0)`, `b.find(request.separator)`: a wider integer would be found by its low bits.
Value Checker::byte_found(Value data, const ast::Call& n, Span span) {
    if (!arguments(n, 1, 1, "b.find(\"/\")")) return {};
    const ast::Expr& which = *n.args[0].value;
    Value byte = value(which);
    if (!byte) return {};
    if (byte.expr->kind == ExprKind::bytes_const && byte.expr->bytes.size() == 1) {
        byte = int_constant(static_cast<std::uint8_t>(byte.expr->bytes[0]), which.span);
    } else if (byte.expr->type.kind == TypeKind::bytes) {
        error(bad_argument, which.span, "`find` looks for one byte, and this is " + describe(byte.expr->type),
              "write `b.find(\"/\")`, and compare what follows: `b[i..i + 4] == \"PK\\x05\\x06\"`");
        return {};
    } else if (byte.expr->type.kind != TypeKind::integer) {
        return wrong(byte, which.span, "one byte", "what `find` looks for");
    } else if (byte.expr->kind == ExprKind::int_const ? byte.expr->value > 255 : byte.expr->type.bits != 8) {
        error(bad_argument, which.span, "`find` looks for one byte, and this integer is wider",
              byte.expr->kind == ExprKind::int_const ? "a byte is 0 to 255" : "take its low bits: `(…) as u8`");
        return {};
    }
    settle(byte);
    Value out = make(ExprKind::bytes_find, {TypeKind::integer}, span);
    out.expr->type.optional = true;
    out.expr->kids.push_back(std::move(data.expr));
    out.expr->kids.push_back(std::move(byte.expr));
    return out;
}

Value Checker::int_of_bytes(Value data, const ast::Call& n, Span span, bool big, bool is_signed) {
    if (!arguments(n, 0, 0, "b." + n.callee.text + "()")) return {};
    if (data.exact && *data.exact > 8) {
        error(length_mismatch, span,
              "`" + n.callee.text + "` reads 0 to 8 bytes, and these are " + std::to_string(*data.exact),
              "take a slice of at most 8 bytes");
        return {};
    }
    Value out = make(ExprKind::int_of_bytes, {TypeKind::integer, 64, is_signed}, span);
    out.expr->value = (big ? 1U : 0U) | (is_signed ? 2U : 0U);
    out.expr->kids.push_back(std::move(data.expr));
    return out;
}

Value Checker::records_of(Value data, const ast::Call& n, Span span) {
    if (!counted(n, 1, 2, "b.records(R, max N)")) return {};
    if (!is_plain(n.args[0])) {
        error(bad_argument, n.callee.span, "`records` takes the name of a record", "write `records(R, max N)`");
        return {};
    }
    auto index = record_named(*n.args[0].value);
    if (!index || !record(*index, span)) return {};
    if (data.place != Place::block) {
        error(mixed_places, span, "records can be read from a block only", "these bytes are not part of the block");
        return {};
    }
    const std::int64_t fixed = module_.records[*index].fixed_size;
    std::uint32_t bound =
        static_cast<std::uint32_t>(fixed > 0 ? kMaxBlock / static_cast<std::uint64_t>(fixed) : kMaxBlock);
    bool given = false;
    if (!sequence_bound(n, 1, bound, given)) return {};
    Type element{TypeKind::view};
    element.record = *index;
    Type type{TypeKind::array};
    type.max = bound;
    type.element = std::make_shared<Type>(element);
    Value out = make(ExprKind::bytes_records, type, span);
    out.expr->value = given ? 1 : 0;
    out.expr->kids.push_back(std::move(data.expr));
    return out;
}

// The last argument of `records` and `split`, when there is one more than `before`.
bool Checker::sequence_bound(const ast::Call& n, std::size_t before, std::uint32_t& bound, bool& given) {
    if (n.args.size() <= before) return true;
    const std::string& name = n.callee.text;
    const ast::Arg& arg = n.args[before];
    if (!arg.is_max) {
        error(bad_argument, arg.value ? arg.value->span : n.callee.span,
              "the last argument of `" + name + "` is a bound", "write `max N`");
        return false;
    }
    auto max = here_uint(*arg.value, "the bound of `" + name + "`", 1, kMaxLoop, loop_too_large);
    if (!max) return false;
    bound = std::min(bound, static_cast<std::uint32_t>(*max));
    given = true;
    return true;
}

std::optional<std::uint8_t> Checker::one_byte(const ast::Expr& e, const std::string& what, const std::string& right) {
    const Value v = bytes(e, what);
    if (!v) return std::nullopt;
    if (v.expr->kind == ExprKind::bytes_const && v.expr->bytes.size() == 1)
        return static_cast<std::uint8_t>(v.expr->bytes[0]);
    error(bad_argument, e.span, what + " is one byte that is known here", "write " + right);
    return std::nullopt;
}

// `b.split(" ", 250, max N)`: the byte between the pieces, and the longest piece.
Value Checker::split(Value data, const ast::Call& n, Span span) {
    const std::string form = "b.split(\" \", 250, max N)";
    if (!counted(n, 2, 3, form)) return {};
    for (const ast::Arg& arg : {std::cref(n.args[0]), std::cref(n.args[1])}) {
        if (is_plain(arg)) continue;
        error(bad_argument, n.callee.span,
              "`split` takes the byte between the pieces, and the length of the longest piece", "write `" + form + "`");
        return {};
    }
    const auto at = one_byte(*n.args[0].value, "what stands between the pieces", "`" + form + "`");
    auto longest = here_uint(*n.args[1].value, "the longest piece", 1, kMaxBlock, out_of_range);
    if (!at || !longest) return {};
    if (data.place != Place::block) {
        error(mixed_places, span, "only bytes of a block can be split", "these bytes are not part of the block");
        return {};
    }
    const std::uint32_t most = data.expr->type.max;
    std::uint32_t bound = most + 1;
    bool given = false;
    if (!sequence_bound(n, 2, bound, given)) return {};
    Type element{TypeKind::bytes};
    element.max = std::min(most, static_cast<std::uint32_t>(*longest));
    Type type{TypeKind::array};
    type.max = bound;
    type.element = std::make_shared<Type>(element);
    Value out = make(ExprKind::bytes_split, type, span);
    out.expr->value = given ? 1 : 0;
    out.expr->index = *at;
    out.expr->kids.push_back(std::move(data.expr));
    return out;
}

bool Checker::has_method(const Value& v, const std::string& name) {
    const auto& names = v.expr->type.kind == TypeKind::bytes ? kBytesMethods : kArrayMethods;
    return std::ranges::find(names, name) != names.end();
}

Value Checker::unknown_method_of(const Value& receiver, const ast::Call& n) {
    const TypeKind kind = receiver.expr->type.kind;
    const auto& names = kind == TypeKind::integer ? kIntegerMethods
                        : kind == TypeKind::bytes ? kBytesMethods
                                                  : kArrayMethods;
    const auto in = [&](const std::vector<std::string>& all) { return is_one_of(all, n.callee.text); };
    if (in(kBytesMethods) || in(kArrayMethods) || in(kIntegerMethods)) {
        const char* whom = in(kArrayMethods) ? "arrays" : in(kBytesMethods) ? "bytes" : "integers";
        error(method_elsewhere, n.callee.span,
              "`" + n.callee.text + "` is a method of " + whom + ", and this is " + describe(receiver.expr->type),
              n.callee.text == "record" ? "only `block` has it" : std::string("apply it to ") + whom);
        return {};
    }
    if (n.callee.text == "record" && kind == TypeKind::bytes) {
        error(unknown_method, n.callee.span, describe(receiver.expr->type) + " has no method `record`",
              "a view is made of the block: `block.record(R, offset)`");
        return {};
    }
    if (const auto number = kind == TypeKind::bytes ? number_method(n.callee.text) : std::nullopt) {
        error(unknown_method, n.callee.span, "bytes has no method `" + n.callee.text + "`", *number);
        return {};
    }
    if (const auto here = method_of_others(n.callee.text, kind)) {
        error(unknown_method, n.callee.span, describe(receiver.expr->type) + " has no method `" + n.callee.text + "`",
              *here);
        return {};
    }
    std::string all;
    for (const auto& name : names) all += (all.empty() ? "" : ", ") + name;
    const bool has = kind == TypeKind::integer || kind == TypeKind::bytes || kind == TypeKind::array;
    error(unknown_method, n.callee.span, describe(receiver.expr->type) + " has no method `" + n.callee.text + "`",
          suggestion(n.callee.text, has ? names : std::vector<std::string>{},
                     has ? "its methods are: " + all : "only integers, bytes and arrays have methods"));
    return {};
}

}  // namespace chainio::sema
