// The temporary folder of a test file: what its commands made, the compiled spec, and the bytes of its files.
#pragma once
#include <expected>
#include <map>
#include <memory>
#include <string>

#include "compiler/backends/interruption.h"
#include "tools/chainio/testing/suite.h"

namespace chainio::testing {

struct Trouble {
    bool skip = false;    // a program that the test file needs is not here
    std::string message;  // as a terminal may show it
};

class Workspace {
  public:
    static std::expected<Workspace, Trouble> make(const Suite& suite);
    ~Workspace();
    Workspace(Workspace&& other) noexcept;
    Workspace(const Workspace&) = delete;
    Workspace& operator=(Workspace&&) = delete;

    // Empty when this machine has what the suite `needs` and its commands did their work; a command that ends with exit
    // code 77 skips the file, with the last line of its output as the reason.
    std::expected<void, Trouble> prepare();
    std::expected<std::string, Trouble> compile() const;  // the artifact's path
    std::string source_map() const;                       // of what was compiled; no such file: of none
    std::expected<const Bytes*, std::string> file(const std::string& name);

  private:
    explicit Workspace(const Suite& suite);
    std::expected<Bytes, std::string> load(const FileSource& source);
    std::string beside(const std::string& path) const;

    std::unique_ptr<backends::Interruption> interruption_;  // ends the program only when the folder is gone
    const Suite* suite_;
    std::string folder_;  // empty: there is none
    std::string spec_folder_;
    std::map<std::string, Bytes> loaded_;
};

}  // namespace chainio::testing
