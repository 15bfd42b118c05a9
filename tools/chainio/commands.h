// The subcommands of `chainio`: each file adds one to the command line and sets the exit code when it is the one that
// ran. There are two programs of them. `chainio-main` has all. `chainio-run`, which is started beside programs and is
// to be there soon, has `run` alone, and none of the libraries that only others need.
#pragma once
#include <span>
#include <string>
#include <vector>

// Its header is as long as all of a command's source, and who only wants the exit codes need not read it.
namespace CLI {
class App;
}

namespace chainio::tool {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;  // the input is wrong, or a chain failed
inline constexpr int kExitUsage = 2;
inline constexpr int kExitSystem = 3;  // a file, memory, clang … is missing

using AddCommand = void (*)(CLI::App& root, int& exit_code);

std::span<const AddCommand> commands();  // of this program, in the order of --help

// What stands behind `--` on the command line of `chainio run`, which is the program's own and not looked at.
const std::vector<std::string>& program_words();

void add_ask(CLI::App& root, int& exit_code);
void add_call(CLI::App& root, int& exit_code);
void add_control(CLI::App& root, int& exit_code);
void add_inspect(CLI::App& root, int& exit_code);
void add_outcomes(CLI::App& root, int& exit_code);
void add_run(CLI::App& root, int& exit_code);
void add_store(CLI::App& root, int& exit_code);
void add_test(CLI::App& root, int& exit_code);
void add_top(CLI::App& root, int& exit_code);

}  // namespace chainio::tool
