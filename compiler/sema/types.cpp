// Types as they are written in parameters, state, results and casts.
#include "compiler/sema/checker.h"

namespace chainio::sema {

using checked::Type;
using checked::TypeKind;

std::vector<std::string> Checker::type_words() const {
    std::vector<std::string> out{"bool"};
    for (const char* sign : {"u", "i"})
        for (int bits = 8; bits <= 64; bits += 8) out.push_back(sign + std::to_string(bits));
    return out;
}

std::optional<Type> Checker::scalar_type(const ast::Name& name, const std::string& what, bool allow_bool) {
    if (name.text.empty()) {
        failed_ = true;
        return std::nullopt;
    }
    if (name.text == "bool") {
        if (allow_bool) return Type{TypeKind::boolean};
        error(type_not_here, name.span, what + " cannot be a bool", "use u8: 0 or 1");
        return std::nullopt;
    }
    if (auto scalar = parse_scalar(name.text)) {
        if (scalar->order != Scalar::Order::none) {
            std::string plain = name.text.substr(0, name.text.size() - 2);
            error(byte_order_unwanted, name.span, what + " has no byte order",
                  "write `" + plain + "`: only fields of records have a byte order");
        }
        return Type{TypeKind::integer, scalar->bits, scalar->is_signed};
    }
    if (name.text.starts_with("varint_")) {
        error(type_not_here, name.span, what + " cannot be a varint",
              "a varint is how a record stores an integer; write u64 here");
        return std::nullopt;
    }
    if (Symbol* symbol = find(*env_.scope, name.text)) {
        symbol->used = true;
        const bool is_file = symbol->kind == SymbolKind::files && env_.site == Site::signature && what == "a parameter";
        const bool is_view = symbol->kind == SymbolKind::record && what == "the target of `as`";
        error(type_not_here, name.span, what + " cannot be `" + name.text + "`",
              is_file   ? "it is a class of files: write `file " + name.text + "`"
              : is_view ? "a view is made of where the record begins: `offset.as(" + name.text + ")`"
                        : "use an integer such as u64, or bytes(max N)");
        return std::nullopt;
    }
    if (env_.scope->is_broken(name.text)) {
        failed_ = true;
        return std::nullopt;
    }
    error(unknown_type, name.span, "there is no type `" + name.text + "`",
          suggestion(name.text, type_words(), "the types are u8 to u64, i8 to i64, bool, bytes(N) and bytes(max N)"));
    return std::nullopt;
}

// The type of a parameter, a state variable, a variable or a result.
std::optional<Type> Checker::value_type(const ast::Type& type, const std::string& what, bool allow_bool,
                                        bool* is_exact) {
    if (type.count) {
        error(type_not_here, type.span, what + " cannot be an array", "use bytes(max N), or a field of a record");
        return std::nullopt;
    }
    if (const auto* bytes = std::get_if<ast::BytesType>(&type.base)) {
        if (!bytes->length) {
            failed_ = true;
            return std::nullopt;
        }
        auto length = here_uint(*bytes->length, "the length of " + what, 1, kMaxBlock, out_of_range, ast::Unit::bytes);
        if (!length) return std::nullopt;
        if (is_exact) *is_exact = !bytes->is_max;
        Type out{TypeKind::bytes};
        out.max = static_cast<std::uint32_t>(*length);
        return out;
    }
    if (std::holds_alternative<ast::CstrType>(type.base)) {
        error(type_not_here, type.span, what + " cannot be a cstr",
              "use bytes(max N); cstr is how a record stores bytes");
        return std::nullopt;
    }
    if (std::holds_alternative<ast::BitsType>(type.base)) {
        error(type_not_here, type.span, what + " cannot be bits", "use an integer; bits are fields of records");
        return std::nullopt;
    }
    const auto& named = std::get<ast::NamedType>(type.base);
    if (!named.name.module.text.empty()) {
        error(type_not_here, type.span, what + " cannot be a record", "use an integer such as u64, or bytes(max N)");
        return std::nullopt;
    }
    return scalar_type(named.name.name, what, allow_bool);
}

}  // namespace chainio::sema
