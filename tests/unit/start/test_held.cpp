// What is for the loader of the program's libraries, while this process becomes another program.
#include "tools/chainio/run/held.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace chainio::run {
namespace {

using Entries = std::vector<std::string>;

// Is the environment meanwhile.
class Environment {
  public:
    explicit Environment(Entries entries) : entries_(std::move(entries)) {
        for (std::string& each : entries_) pointers_.push_back(each.data());
        pointers_.push_back(nullptr);
        before_ = std::exchange(environ, pointers_.data());
    }
    ~Environment() { environ = before_; }
    Environment(const Environment&) = delete;
    Environment& operator=(const Environment&) = delete;

  private:
    Entries entries_;
    std::vector<char*> pointers_;
    char** before_;
};

Entries found() {
    Entries out;
    for (char** each = environ; *each != nullptr; each++) out.emplace_back(*each);
    return out;
}

// Those that were held stay so: the process is about to be another one.
void* from_a_buffer(std::size_t size) {
    static char buffer[1024];
    static std::size_t used = 0;
    return buffer + std::exchange(used, used + size);
}

void* of_short_ones(std::size_t size) { return size < 40 ? from_a_buffer(size) : nullptr; }

const Entries kWhole = {"LD_PRELOAD=/a.so", "HOME=/", "LD_LIBRARY_PATH=/of/many/folders",
                        "LD_BIND_NOW=", "CHAINIO_STARTED=7 0 0 3 0 /region"};

TEST(Held, EachHasAnotherNameAndStaysInItsPlace) {
    const Environment environment(kWhole);
    hold_loader_variables(from_a_buffer);
    EXPECT_EQ(found(),
              (Entries{"CHAINIO_HELD_LD_PRELOAD=/a.so", "HOME=/", "CHAINIO_HELD_LD_LIBRARY_PATH=/of/many/folders",
                       "CHAINIO_HELD_LD_BIND_NOW=", "CHAINIO_STARTED=7 0 0 3 0 /region"}));
    release_loader_variables();
    EXPECT_EQ(found(), kWhole);
}

TEST(Held, OneWithoutMemoryIsNoEndOfTheEnvironment) {
    const Environment environment(kWhole);
    hold_loader_variables(of_short_ones);
    EXPECT_EQ(found(), (Entries{"CHAINIO_HELD_LD_PRELOAD=/a.so", "HOME=/", "LD_LIBRARY_PATH=/of/many/folders",
                                "CHAINIO_HELD_LD_BIND_NOW=", "CHAINIO_STARTED=7 0 0 3 0 /region"}));
    release_loader_variables();
    EXPECT_EQ(found(), kWhole);
}

}  // namespace
}  // namespace chainio::run
