// What names lead to behind a file, found by hand: what the loader finds.
#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <gtest/gtest.h>

#include "runtime/shim/behind.h"
#include "runtime/shim/names.h"

namespace chainio::shim {
namespace {

constexpr char kHere = 0;  // in the program's own file

TEST(Behind, FindsWhatTheLoaderFinds) {
    const char* const names[] = {
#define CHAINIO_RAW(name, fallback) #name,
#define CHAINIO_LIBC(name) #name,
        CHAINIO_NAMES(CHAINIO_RAW, CHAINIO_LIBC)
#undef CHAINIO_RAW
#undef CHAINIO_LIBC
    };
    unsigned found = 0;
    for (const char* name : names) {
        void* wanted = dlsym(RTLD_NEXT, name);
        found += wanted != nullptr;
        EXPECT_EQ(find_behind(&kHere, name), wanted) << name;
    }
    EXPECT_GT(found, 100u);
}

TEST(Behind, FindsNothingInFrontAndNoData) {
    EXPECT_EQ(find_behind(reinterpret_cast<const void*>(gnu_get_libc_version), "open"), nullptr);
    EXPECT_EQ(find_behind(nullptr, "open"), nullptr) << "what lies nowhere has nothing behind it";
    EXPECT_EQ(find_behind(&kHere, "environ"), nullptr);
    EXPECT_EQ(find_behind(&kHere, "chainio_there_is_none"), nullptr);
    EXPECT_EQ(find_behind(&kHere, ""), nullptr);
}

}  // namespace
}  // namespace chainio::shim
