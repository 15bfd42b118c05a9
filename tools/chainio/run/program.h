// The program that is to be run: where it is, and whether a library can be preloaded into it.
#pragma once
#include <elf.h>

#include <expected>
#include <optional>
#include <string>
#include <string_view>

#include "tools/chainio/run/files.h"

namespace chainio::run {

// Of an ELF file of 64 bits; nullopt: it is none.
std::optional<Elf64_Ehdr> elf_header(const Descriptor& file);

struct NotFound {
    int exit_code = 127;  // as a shell: 127 there is none, 126 it cannot be executed
    std::string why;
};
// As a shell finds it: by PATH unless the name has a `/`.
std::expected<std::string, NotFound> find_program(std::string_view name);

// What is missing of a program that is there and still cannot be started for want of a file (ENOENT): its interpreter,
// or its loader. As it stands in the file, for who shows it to escape.
struct Missing {
    bool interpreter = false;
    std::string path;
};
std::optional<Missing> missing_for(const std::string& path);

// Why the loader would not take a preloaded library into the program; empty when it would.
std::string cannot_preload(const std::string& path);

}  // namespace chainio::run
