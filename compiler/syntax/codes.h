// The codes of the front ends; their texts are in compiler/diag/catalog/syntax.def.
#pragma once

namespace chainio::syntax::code {

constexpr int unexpected = 1;
constexpr int unclosed = 2;
constexpr int stray_close = 3;
constexpr int too_deep = 4;
constexpr int too_large = 5;
constexpr int bad_character = 6;
constexpr int open_string = 7;
constexpr int bad_escape = 8;
constexpr int bad_number = 9;
constexpr int number_too_large = 10;
constexpr int unknown_unit = 11;
constexpr int unknown_declaration = 12;
constexpr int reserved_word = 13;
constexpr int too_many = 14;
constexpr int yaml_syntax = 30;
constexpr int yaml_unknown_key = 31;
constexpr int yaml_missing_key = 32;
constexpr int yaml_wrong_kind = 33;
constexpr int yaml_duplicate_key = 34;
constexpr int yaml_alias = 35;
constexpr int yaml_documents = 36;
constexpr int yaml_no_construct = 37;

}  // namespace chainio::syntax::code
