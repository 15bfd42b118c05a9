// What a store takes over from the one in whose place it comes, besides mode and owner: whom else it is for, and what
// is attached to it.
#include <gtest/gtest.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "tests/support/in_child.h"
#include "tests/unit/store/store_test.h"
#include "tools/chainio/store/build.h"

namespace chainio::store {
namespace {

constexpr const char *kAccess = "system.posix_acl_access", *kDefault = "system.posix_acl_default";
constexpr unsigned kNamed = 1234, kOther = 12345;

// Owner, a named user, the owning group, the mask and the others.
std::string list_of(unsigned owner, unsigned named, unsigned group, unsigned mask, unsigned others) {
    const auto entry = [](unsigned tag, unsigned permissions, unsigned id = ACL_UNDEFINED_ID) {
        return posix_acl_xattr_entry{static_cast<__le16>(tag), static_cast<__le16>(permissions), id};
    };
    const posix_acl_xattr_header head{POSIX_ACL_XATTR_VERSION};
    const posix_acl_xattr_entry entries[]{entry(ACL_USER_OBJ, owner), entry(ACL_USER, named, kNamed),
                                          entry(ACL_GROUP_OBJ, group), entry(ACL_MASK, mask), entry(ACL_OTHER, others)};
    std::string text(sizeof head + sizeof entries, '\0');
    std::memcpy(text.data(), &head, sizeof head);
    std::memcpy(text.data() + sizeof head, entries, sizeof entries);
    return text;
}

class StoreRights : public StoreTest {
  protected:
    std::string store() const { return path("a.store"); }
    bool set(const std::string& file, const char* name, const std::string& value) const {
        return setxattr(file.c_str(), name, value.data(), value.size(), 0) == 0;
    }
    std::optional<std::string> get(const char* name) const {
        std::string value(1000, '\0');
        const ssize_t length = getxattr(store().c_str(), name, value.data(), value.size());
        if (length < 0) return std::nullopt;
        value.resize(static_cast<std::size_t>(length));
        return value;
    }
    // What was lost; nothing: it was not built.
    std::optional<std::vector<std::string>> build_once(unsigned items) const {
        std::vector<Rows::Made> made;
        for (unsigned i = 0; i < items; i++) made.push_back({"key " + std::to_string(i), "value"});
        Rows rows(made);
        const auto built = build(rows, {.path = store()});
        return built ? std::optional(built->lost) : std::nullopt;
    }
    // By another user; how many things were lost, or -1.
    int build_as_other() const {
        const int lost = tests::in_child([&] {
            if (setresgid(kOther, kOther, kOther) != 0 || setresuid(kOther, kOther, kOther) != 0) return 100;
            const auto what = build_once(7);
            return what ? static_cast<int>(what->size()) : 101;
        });
        return lost < 100 ? lost : -1;
    }
    mode_t mode() const {
        struct stat now{};
        return stat(store().c_str(), &now) == 0 ? now.st_mode & 07777 : 0;
    }
};

TEST_F(StoreRights, KeepsWhomElseItIsForAndWhatIsAttached) {
    ASSERT_TRUE(build_once(5));
    const std::string list = list_of(6, 4, 0, 4, 0);
    if (!set(store(), kAccess, list)) GTEST_SKIP() << "this file system has no access control lists";
    const bool attached = set(store(), "user.origin", "nightly");
    ASSERT_TRUE(attached || errno == EOPNOTSUPP) << std::strerror(errno);
    EXPECT_EQ(build_once(6), std::vector<std::string>{});
    EXPECT_EQ(get(kAccess), list);
    EXPECT_EQ(mode(), mode_t{0640}) << "the group's bits are the list's mask";
    if (!attached) GTEST_SKIP() << "what is attached: this file system takes nothing from users, as tmpfs before 6.6";
    EXPECT_EQ(get("user.origin"), "nightly");
}

// What the folder gives to files that are made in it is not what the file before had.
TEST_F(StoreRights, ASecondOneGetsNoListThatTheFirstHadNot) {
    ASSERT_TRUE(build_once(5));
    ASSERT_EQ(chmod(store().c_str(), 0640), 0);
    if (!set(path("."), kDefault, list_of(6, 6, 6, 6, 0))) GTEST_SKIP() << "no access control lists";
    EXPECT_EQ(build_once(6), std::vector<std::string>{});
    EXPECT_EQ(get(kAccess), std::nullopt);
    EXPECT_EQ(mode(), mode_t{0640});
}

// Who may not give it its group gives another group no more than everybody has, and others by name what they had.
TEST_F(StoreRights, AnotherGroupGetsNoMoreThanEverybodyByAListToo) {
    if (geteuid() != 0) GTEST_SKIP() << "without privileges there is no file of a group that is not this user's";
    ASSERT_EQ(chmod(path(".").c_str(), 0777), 0);
    ASSERT_TRUE(build_once(5));
    if (!set(store(), kAccess, list_of(6, 6, 6, 6, 4))) GTEST_SKIP() << "no access control lists";
    EXPECT_EQ(build_as_other(), 0);
    EXPECT_EQ(get(kAccess), list_of(6, 6, 4, 6, 4));
}

TEST_F(StoreRights, SaysWhatItCouldNotTakeOver) {
    if (geteuid() != 0) GTEST_SKIP() << "without privileges no file can be given a label";
    ASSERT_EQ(chmod(path(".").c_str(), 0777), 0);
    ASSERT_TRUE(build_once(5));
    ASSERT_EQ(chmod(store().c_str(), 0644), 0);
    if (!set(store(), "security.SMACK64", "kept")) GTEST_SKIP() << "no labels here";
    EXPECT_EQ(build_once(6), std::vector<std::string>{});
    EXPECT_EQ(get("security.SMACK64"), "kept");
    EXPECT_EQ(build_as_other(), 1);
    EXPECT_EQ(get("security.SMACK64"), std::nullopt);
}

}  // namespace
}  // namespace chainio::store
