// Finds, reads and parses source files: the one that is compiled and those that it imports.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/ast/ast.h"
#include "compiler/diag/diag.h"
#include "compiler/sema/check.h"

namespace chainio::chainc {

struct LoadedFile {
    FileId id = 0;
    std::string path;  // as it was found; "-" for standard input
    std::string
        canonical_name;  // as line information names it: no folder of this machine, so that outputs are reproducible
    std::unique_ptr<ast::File> tree;
};

class FileLoader {
  public:
    FileLoader(diag::Sources& sources, diag::Diagnostics& diagnostics, std::vector<std::string> include_dirs,
               std::string stdlib);

    // A name that is no file's is looked for in the library. Null when it cannot be read (reported).
    LoadedFile* load_root(const std::string& path);
    // For sema::check. A file that several files import is parsed once.
    sema::Loaded load_import(const std::string& path, FileId importing);

    const std::deque<LoadedFile>& files() const { return files_; }

  private:
    bool add_text(const std::string& shown_name, std::string text, FileId& id);
    LoadedFile* add_empty(FileId id, const std::string& path, std::string canonical_name);
    LoadedFile* parse(FileId id, const std::string& path, std::string canonical_name);
    std::vector<std::string> candidates(const std::string& path, FileId importing) const;
    std::string unused_name(const std::string& wanted) const;

    diag::Sources& sources_;
    diag::Diagnostics& diagnostics_;
    std::vector<std::string> include_dirs_;
    std::string stdlib_;
    std::deque<LoadedFile> files_;  // a deque: pointers to its elements stay good
    std::map<std::string, LoadedFile*> by_real_path_;
};

}  // namespace chainio::chainc
