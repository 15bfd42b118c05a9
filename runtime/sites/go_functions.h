// Where the functions of a Go program are: its runtime's own table, which stripping leaves.
#pragma once
#include <cstdint>
#include <vector>

#include "runtime/probe/elf_view.h"

namespace chainio::sites {

// Where each begins and, last, where the last one ends; in order. Empty when there is no such table, or one of a form
// that is not known: Go 1.18 and later write it, with addresses in it unless the program is position-independent.
std::vector<std::uint64_t> go_functions(const probe::ElfView& elf);

}  // namespace chainio::sites
