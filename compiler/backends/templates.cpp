#include "compiler/backends/templates.h"

#include <cstdlib>
#include <utility>

namespace chainio::backends {
namespace {

constexpr std::pair<std::string_view, std::string_view> kTexts[] = {
#include "compiler/backends/template_texts.inc"
};

}  // namespace

std::string_view template_text(std::string_view name) {
    for (const auto& [key, text] : kTexts)
        if (key == name) return text;
    std::abort();
}

}  // namespace chainio::backends
