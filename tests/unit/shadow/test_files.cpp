// Which files the server knows and keeps open.
#include "runtime/shadow/files.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <iterator>

#include "runtime/shadow/clock.h"
#include "runtime/shadow/refusals.h"
#include "tests/unit/shadow/fixture.h"

namespace {
unsigned asked_for_systems = 0;
int other_system = 0;  // not 0: that of all files, as the kernel numbers them
}  // namespace

// Counted for what is linked with it.
extern "C" int fstatfs(int fd, struct statfs* system) noexcept {
    asked_for_systems++;
    const auto result = static_cast<int>(syscall(SYS_fstatfs, fd, system));
    if (other_system != 0) system->f_type = other_system;
    return result;
}

namespace chainio::shadow::test {
namespace {

class FilesTest : public testing::Test {
  protected:
    static constexpr std::uint32_t kKnown = 8, kOpen = 3;
    Folder folder_;
    std::shared_ptr<const spec::Loaded> spec_ =
        compiled("app web { files root = \"" + folder_.path() + "/*\" { root \"" + folder_.path() +
                 "\" } files fixed = \"" + folder_.path() +
                 "/**\" { immutable } files others = \"*.secret\" }\n"
                 "chain some on open(root) as r { prefetch r.file at 0 for 4096 }\n");
    Files files_{*spec_, kKnown, kOpen};

    ShadowFile& get(const std::string& name) {
        auto found = files_.under_root(name, 0, now_ns());
        EXPECT_TRUE(found) << refusal_text(found.error());
        return **found;
    }
};

TEST_F(FilesTest, TheOneUsedLongestAgoIsClosedAndForgottenFirst) {
    for (int i = 0; i < 20; i++) folder_.write("f" + std::to_string(i), "x");
    for (int i = 0; i < 20; i++) {
        ShadowFile& file = get("f" + std::to_string(i));
        EXPECT_GE(file.fd, 0);
        EXPECT_LE(files_.open_count(), kOpen);
        EXPECT_LE(files_.known(), kKnown);
    }
    const ShadowFile oldest = get("f17");
    const ShadowFile& other = get("f18");
    get("f16");
    EXPECT_NE(files_.find(oldest.device, oldest.inode), nullptr);
    get("f18");
    get("f16");
    EXPECT_GE(other.fd, 0);
    get("f15");
    EXPECT_EQ(files_.find(oldest.device, oldest.inode), nullptr) << "of f17, f18, f16 and f15 it was used first";
    EXPECT_GE(other.fd, 0);
}

TEST_F(FilesTest, WhatNobodyUsesAnyMoreIsClosed) {
    for (const char* name : {"named", "open", "deleted"}) folder_.write(name, "x");
    get("named");
    ShadowFile &open = get("open"), &deleted = get("deleted");
    files_.opened(open.device, open.inode, open.path, 0, 0);
    files_.opened(deleted.device, deleted.inode, deleted.path, 0, 0);
    files_.let_go();
    files_.let_go();
    EXPECT_EQ(files_.open_count(), 3u) << "a moment is nothing";
    files_.let_go();
    EXPECT_EQ(files_.open_count(), 2u) << "the named one";
    ASSERT_EQ(unlink(deleted.path.c_str()), 0);
    files_.let_go();
    EXPECT_LT(deleted.fd, 0);
    EXPECT_GE(open.fd, 0) << "a program has it open";
    files_.closed(open.device, open.inode);
    open.pins++;
    files_.let_go();
    EXPECT_GE(open.fd, 0) << "it is being read";
    open.pins--;
    files_.let_go();
    EXPECT_LT(open.fd, 0);
}

// Whoever has deleted a file may need its space at once.
TEST_F(FilesTest, WhatWasDeletedIsClosedAtOnceUnlessItIsBeingRead) {
    std::atomic<std::uint32_t> may_be_open{0};
    files_.tell_of_openings(may_be_open);
    for (const char* name : {"kept", "deleted", "read"}) folder_.write(name, "x");
    const ShadowFile &kept = get("kept"), &deleted = get("deleted");
    ShadowFile& read = get("read");
    EXPECT_EQ(may_be_open, 1u);
    for (const ShadowFile* each : {&kept, &deleted, static_cast<const ShadowFile*>(&read)})
        files_.opened(each->device, each->inode, each->path, 0, 0);
    EXPECT_TRUE(files_.let_go_of_deleted());
    EXPECT_EQ(files_.open_count(), 3u);
    read.pins++;
    for (const std::string& path : {deleted.path, read.path}) ASSERT_EQ(unlink(path.c_str()), 0);
    EXPECT_FALSE(files_.let_go_of_deleted());
    EXPECT_LT(deleted.fd, 0);
    EXPECT_GE(kept.fd, 0);
    EXPECT_GE(read.fd, 0);
    read.pins--;
    EXPECT_TRUE(files_.let_go_of_deleted());
    EXPECT_LT(read.fd, 0);
}

TEST_F(FilesTest, OfAProgramThatEndedWithoutClosingItIsClosedLater) {
    folder_.write("f", "x");
    ShadowFile& file = get("f");
    files_.opened(file.device, file.inode, file.path, 0, 0);
    for (int i = 0; i < 19; i++) files_.let_go();
    EXPECT_GE(file.fd, 0);
    files_.let_go();
    EXPECT_LT(file.fd, 0);
    files_.opened(file.device, file.inode, file.path, O_DIRECT, 1);
    ASSERT_TRUE(files_.open(file));
    for (int i = 0; i < 100; i++) files_.let_go();
    EXPECT_GE(file.fd, 0) << "its bytes are served";
}

// Another program may open it again, and find in memory what it was served before.
TEST_F(FilesTest, WhatIsServedStaysOpenForAWhileWhenNobodyHasItOpen) {
    for (const char* name : {"f", "served"}) folder_.write(name, "x");
    ShadowFile &file = get("f"), &served = get("served");
    files_.opened(file.device, file.inode, file.path, 0, 0);
    files_.opened(served.device, served.inode, served.path, O_DIRECT, 1);
    for (const ShadowFile* each : {&file, &served}) files_.closed(each->device, each->inode);
    for (int i = 0; i < 19; i++) files_.let_go();
    EXPECT_LT(file.fd, 0);
    EXPECT_GE(served.fd, 0);
    files_.let_go();
    EXPECT_LT(served.fd, 0);
}

TEST_F(FilesTest, WhoOnlyWritesTakesNothingFromWhoReads) {
    folder_.write("f", "x");
    ShadowFile& file = get("f");
    files_.opened(file.device, file.inode, file.path, O_DIRECT, 1);
    files_.opened(file.device, file.inode, file.path, O_WRONLY, 1);
    EXPECT_TRUE(file.served);
    files_.closed(file.device, file.inode);
    for (int i = 0; i < 100; i++) files_.let_go();
    EXPECT_GE(file.fd, 0) << "a program that reads has it open";
    files_.closed(file.device, file.inode);
    for (int i = 0; i < 100; i++) files_.let_go();
    EXPECT_LT(file.fd, 0);
}

TEST_F(FilesTest, WhoOnlyWritesPastThePageCacheSaysNothingOfHowItIsRead) {
    const std::string path = folder_.write("f", "x");
    struct stat info{};
    ASSERT_EQ(stat(path.c_str(), &info), 0);
    const ShadowFile& file = files_.opened(info.st_dev, info.st_ino, path, O_WRONLY | O_DIRECT, 1);
    EXPECT_FALSE(file.direct || file.served);
    EXPECT_EQ(file.openings, 1u);
}

TEST_F(FilesTest, WhatTheKernelMakesWhenItIsReadIsNeverOpened) {
    for (const std::string path : {"/proc/self/status", "/sys/kernel/mm/transparent_hugepage/enabled"}) {
        struct stat status{};
        if (stat(path.c_str(), &status) != 0) continue;
        ASSERT_TRUE(S_ISREG(status.st_mode)) << path;
        files_.opened(status.st_dev, status.st_ino, path, 0, 0);
        ShadowFile* file = files_.find(status.st_dev, status.st_ino);
        ASSERT_NE(file, nullptr) << path;
        const auto fd = files_.open(*file);
        ASSERT_FALSE(fd) << path;
        EXPECT_EQ(fd.error(), FileRefusal::made_when_read) << path;
    }
}

// FUSE and NFS ask somebody else, as for a read.
TEST_F(FilesTest, OfWhichKindAFileSystemIsIsNotAskedForEachFile) {
    for (int i = 0; i < 20; i++) folder_.write("f" + std::to_string(i), "x");
    const unsigned before = asked_for_systems;
    const std::uint64_t begin = now_ns();
    for (int i = 0; i < 20; i++) get("f" + std::to_string(i));
    const auto seconds = static_cast<unsigned>((now_ns() - begin) / 1'000'000'000);
    EXPECT_GE(asked_for_systems - before, 1u);
    EXPECT_LE(asked_for_systems - before, 1 + seconds);
}

TEST_F(FilesTest, WithoutDescriptorsTheOldestIsClosed) {
    for (int i = 0; i < 8; i++) folder_.write("f" + std::to_string(i), "x");
    Files files(*spec_, 64, 64);
    const auto named = [&](int i) { return files.under_root("f" + std::to_string(i), 0, now_ns()); };
    const FewDescriptors few(4);
    for (int i = 0; i < 8; i++) {
        const auto found = named(i);
        EXPECT_TRUE(found) << i << ": " << refusal_text(found.error());
        if (found) EXPECT_GE((*found)->fd, 0) << i;
    }
    EXPECT_LT(files.open_count(), 4u);
}

TEST_F(FilesTest, WithoutAnyThatIsWhyAFileIsLeftAloneAndOnlyForNow) {
    folder_.write("f", "x");
    struct stat info{};
    ASSERT_EQ(stat((folder_.path() + "/f").c_str(), &info), 0);
    ShadowFile& file = files_.opened(info.st_dev, info.st_ino, folder_.path() + "/f", 0, 0);
    {
        const FewDescriptors none(0);
        EXPECT_EQ(files_.open(file), std::unexpected(FileRefusal::no_descriptors));
        EXPECT_EQ(files_.under_root("f", 0, now_ns()), std::unexpected(FileRefusal::no_descriptors));
    }
    EXPECT_TRUE(files_.open(file));
}

// As an overlay may get the number that a file system in memory had.
TEST_F(FilesTest, WhatIsKnownOfAFileSystemIsNotBelievedOfTheNextOfItsNumber) {
    folder_.write("f", "x");
    const ShadowFile& file = get("f");
    if (!file.counts_pages) GTEST_SKIP() << "nothing of this file system could change";
    std::array<shim::DiskFacts, 3> disks{};
    files_.tell_of_disks(disks);
    const std::uint64_t others[] = {file.device + 1, file.device + 2};
    const auto know = [&](unsigned i, std::uint64_t device) {
        disks[i].device = device;
        disks[i].longest = device * kPage;
    };
    know(0, others[0]), know(1, file.device), know(2, others[1]);
    other_system = OVERLAYFS_SUPER_MAGIC;
    unsigned made = 0;
    EXPECT_TRUE(happens([&] {
        const std::string name = "g" + std::to_string(made++);
        folder_.write(name, "x");
        return !get(name).counts_pages;
    })) << "the kind is not asked for each file";
    other_system = 0;
    for (unsigned i : {0, 1}) {
        EXPECT_EQ(disks[i].device, others[i]) << "programs look at the first one to know whether there is any";
        EXPECT_EQ(disks[i].longest, others[i] * kPage);
    }
    EXPECT_EQ(disks[2].device, 0u);
}

TEST_F(FilesTest, WhatIsNoRegularFileIsNeverOpened) {
    const std::string path = folder_.path() + "/pipe";
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    const int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    ASSERT_GE(inotify_add_watch(watch, path.c_str(), IN_OPEN), 0);
    const auto found = files_.under_root("pipe", 0, now_ns());
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error(), FileRefusal::not_regular);
    char event[4096];
    EXPECT_EQ(read(watch, event, sizeof event), -1) << "somebody has opened it";
    close(watch);
}

// A program that has given up root may make links, and post paths with `..`.
TEST_F(FilesTest, WhereItIsRootAPathThatLeadsOutOfItsClassIsNotFollowed) {
    if (geteuid() != 0) GTEST_SKIP() << "a server that is not root may read no more than its programs";
    const Folder other;
    const std::string path = other.write("a.secret", "x"), name = other.path().substr(other.path().rfind('/'));
    folder_.write("f", "x");
    folder_.write("in/f", "x");
    ASSERT_EQ(symlink(path.c_str(), (folder_.path() + "/f.link").c_str()), 0);
    ASSERT_EQ(symlink("in/f", (folder_.path() + "/inside").c_str()), 0);
    const auto refusal = [&](const std::string& beneath) {
        const auto found = files_.at(folder_.path() + beneath, 1, now_ns());
        return found ? "none" : refusal_text(found.error());
    };
    const std::string elsewhere = refusal_text(FileRefusal::elsewhere);
    EXPECT_EQ(refusal("/f.link"), elsewhere);
    EXPECT_EQ(refusal("/.." + name + "/a.secret"), elsewhere);
    EXPECT_STREQ(refusal("/inside"), "none");
    const auto beside = files_.sibling(get("f"), ".link", 1, now_ns());
    ASSERT_FALSE(beside);
    EXPECT_EQ(beside.error(), FileRefusal::elsewhere);

    struct stat info{};
    ASSERT_EQ(stat(path.c_str(), &info), 0);
    files_.opened(info.st_dev, info.st_ino, folder_.path() + "/f.link", 0, 1);
    ShadowFile* claimed = files_.find(info.st_dev, info.st_ino);
    ASSERT_NE(claimed, nullptr);
    EXPECT_EQ(files_.open(*claimed), std::unexpected(FileRefusal::elsewhere));
    files_.opened(info.st_dev, info.st_ino, path, 0, 2);
    EXPECT_TRUE(files_.open(*claimed)) << "by its own name";
    files_.opened(info.st_dev, info.st_ino, folder_.path() + "/f.link", O_DIRECT, 1);
    EXPECT_FALSE(claimed->served) << "of the other class files are";

    ASSERT_EQ(seteuid(65534), 0);
    Files of_a_user(*spec_, kKnown, kOpen);
    ASSERT_EQ(seteuid(0), 0);
    EXPECT_TRUE(of_a_user.at(folder_.path() + "/f.link", 1, now_ns()))
        << "programs of a user have their links followed";
}

TEST_F(FilesTest, WhereItIsRootWithoutProcThatIsWhyFilesAreLeftAlone) {
    if (geteuid() != 0) GTEST_SKIP() << "a server that is not root may read no more than its programs";
    folder_.write("f", "x");
    std::optional<Files> files;
    {
        const FewDescriptors none(0);  // as if there were nothing to open
        files.emplace(*spec_, kKnown, kOpen);
    }
    EXPECT_EQ(files->at(folder_.path() + "/f", 0, now_ns()), std::unexpected(FileRefusal::no_proc));
}

TEST_F(FilesTest, AccessTimesAreLeftAlone) {
    folder_.write("f", "x");
    EXPECT_NE(fcntl(get("f").fd, F_GETFL) & O_NOATIME, 0);
}

// The ring would have reads end with EAGAIN that would have to wait for some disks.
TEST_F(FilesTest, ReadsMayWait) {
    folder_.write("f", "x");
    EXPECT_EQ(fcntl(get("f").fd, F_GETFL) & O_NONBLOCK, 0);
}

// A program makes a file, writes it, and opens it to read it.
TEST_F(FilesTest, HowLongItIsIsLookedAtWhenAProgramOpensItAndOnceInAWhile) {
    const std::string path = folder_.write("f", "");
    ShadowFile& file = get("f");
    const auto size = [&] {
        EXPECT_NE(files_.header(file, 0), nullptr);
        return file.size;
    };
    const auto opened = [&] { files_.opened(file.device, file.inode, path, O_RDONLY, 0); };
    const auto grow = [&](off_t to) { ASSERT_EQ(truncate(path.c_str(), to), 0); };
    opened();
    EXPECT_EQ(size(), 0u);
    grow(1000);
    EXPECT_EQ(size(), 0u) << "each look takes a system call";
    opened();
    EXPECT_EQ(size(), 1000u);
    grow(2000);
    files_.look_again();
    EXPECT_EQ(size(), 2000u);
}

TEST_F(FilesTest, AClosedOneIsRememberedOnlyWhereAProgramHasOpenedIt) {
    for (int i = 0; i < 8; i++) folder_.write("f" + std::to_string(i), "x");
    ShadowFile& told = get("f0");
    files_.opened(told.device, told.inode, told.path, 0, 0);
    for (int i = 1; i < 8; i++) get("f" + std::to_string(i));
    EXPECT_LT(told.fd, 0);
    EXPECT_EQ(files_.find(told.device, told.inode), &told);
    EXPECT_EQ(files_.known(), kOpen + 1);
    EXPECT_TRUE(files_.open(told)) << "by the path that is remembered";
}

TEST_F(FilesTest, AFileThatTookThePlaceOfAnotherIsFoundAfterAMoment) {
    folder_.write("f", "x");
    folder_.write("other", "y");
    const std::uint64_t begin = now_ns(), inode = get("f").inode;
    std::filesystem::rename(folder_.path() + "/other", folder_.path() + "/f");
    const auto found = [&](std::uint64_t later) {
        const auto file = files_.under_root("f", 0, begin + later);
        return file ? (*file)->inode : 0;
    };
    EXPECT_EQ(found(900'000'000), inode) << "each look at a path takes time";
    EXPECT_NE(found(30'000'000'000), inode);
}

// As where a site is switched to its next release.
TEST_F(FilesTest, ARootThatTookThePlaceOfAnotherIsFoundAfterAMoment) {
    const std::string before = folder_.path() + ".before";
    folder_.write("f", "x");
    const std::uint64_t begin = now_ns(), inode = get("f").inode;
    std::filesystem::rename(folder_.path(), before);
    std::filesystem::create_directory(folder_.path());
    folder_.write("f", "y");
    const auto file = files_.under_root("f", 0, begin + 2'000'000'000);
    std::filesystem::remove_all(before);
    ASSERT_TRUE(file);
    EXPECT_NE((*file)->inode, inode);
}

TEST_F(FilesTest, ARootIsHeldByNothing) {
    folder_.write("f", "x");
    get("f");
    EXPECT_TRUE(files_.let_go_of_all());
    for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
        std::error_code gone;
        EXPECT_NE(std::filesystem::read_symlink(each, gone), folder_.path());
    }
}

// What a server sends for a folder is a file of that folder.
TEST(FilesIndex, IsTheFileThatAPathOfAFolderMeans) {
    const Folder folder;
    const std::string root = folder.path() + "/root";
    for (const char* name : {"root/home.html", "root/docs/home.html", "root/docs/a.txt", "outside/home.html"})
        folder.write(name, "x");
    std::filesystem::create_directory(root + "/bare");
    std::filesystem::create_symlink("../outside", root + "/out");
    const std::string where = "{ root \"" + root + "\" ";
    const auto spec =
        compiled("app web { files docs = \"" + root + "/**\" " + where + "index \"home.html\" }  files texts = \"" +
                 root + "/*.txt\" " + where + "index \"home.html\" }  files none = \"" + root + "/**\" " + where +
                 "} }\nchain some on open(docs) as r { prefetch r.file at 0 for 4096 }\n");
    Files files(*spec, 8, 3);
    const auto asked = [&](const char* path, std::uint32_t file_class = 0) -> std::string {
        const auto found = files.under_root(path, file_class, now_ns());
        if (!found) return refusal_text(found.error());
        return std::filesystem::equivalent((*found)->path, root + "/home.html")        ? "the root's"
               : std::filesystem::equivalent((*found)->path, root + "/docs/home.html") ? "that of docs"
                                                                                       : (*found)->path;
    };
    for (const char* path : {"", "/", "//", "%2f"}) EXPECT_EQ(asked(path), "the root's") << path;
    for (const char* path : {"docs/", "/docs/", "//docs//", "/d%6fcs/", "/docs%2F"})
        EXPECT_EQ(asked(path), "that of docs") << path;
    EXPECT_EQ(asked("/docs/a.txt"), root + "/docs/a.txt");
    EXPECT_EQ(asked("/docs"), refusal_text(FileRefusal::not_regular)) << "a server sends whoever asks so elsewhere";
    for (const char* path : {"/bare/", "/none/", "/docs/a.txt/"})
        EXPECT_EQ(asked(path), refusal_text(FileRefusal::cannot_open)) << path;
    for (const char* path : {"/docs/../", "/out/", "/..%2f", "/docs/%00/"})
        EXPECT_EQ(asked(path), refusal_text(FileRefusal::leaves_root)) << path;
    EXPECT_EQ(asked("/docs/", 1), refusal_text(FileRefusal::no_match));
    EXPECT_EQ(asked("/", 2), refusal_text(FileRefusal::leaves_root));
    EXPECT_EQ(asked("/docs/", 2), refusal_text(FileRefusal::not_regular));
}

// As logs are rotated. A path that is not known is opened anew each time.
TEST_F(FilesTest, WhatHasTakenAnothersNameStaysKnownByIt) {
    const std::string path = folder_.write("log", "old"), rotated = path + ".1";
    const ShadowFile& old = get("log");
    std::filesystem::rename(path, rotated);
    folder_.write("log", "new");
    struct stat info{};
    ASSERT_EQ(stat(path.c_str(), &info), 0);
    const ShadowFile& file = files_.opened(info.st_dev, info.st_ino, path, 0, 0);
    files_.opened(old.device, old.inode, rotated, 0, 0);
    const std::uint64_t now = now_ns();
    for (const std::uint64_t at : {now, now + 1}) {
        const auto found = files_.at(path, 0, at);
        ASSERT_TRUE(found) << refusal_text(found.error());
        EXPECT_EQ(*found, &file);
    }
    EXPECT_EQ(file.checked_ns, now) << "it is not opened again";
}

// As when a new edition of a file is taken back. For a second a path leads to the file that had it last.
TEST_F(FilesTest, WhatGetsItsNameBackIsKnownByItAgain) {
    const std::string path = folder_.write("a", "x");
    folder_.write("b", "y");
    const ShadowFile &file = get("a"), &edition = get("b");
    files_.opened(edition.device, edition.inode, path, 0, 0);
    files_.opened(file.device, file.inode, path, 0, 0);
    const std::uint64_t now = now_ns();
    const auto found = files_.at(path, 0, now);
    ASSERT_TRUE(found) << refusal_text(found.error());
    EXPECT_EQ(*found, &file);
}

// A request may name anything below the root, and a chain any ending.
TEST_F(FilesTest, WhatTheClassDoesNotHaveIsNotOpened) {
    std::filesystem::create_directory(folder_.path() + "/in");
    for (const char* name : {"f", "f.txt", "in/f"}) folder_.write(name, "x");
    const auto under = files_.under_root("in/f", 0, now_ns());
    ASSERT_FALSE(under);
    EXPECT_EQ(under.error(), FileRefusal::no_match);
    const auto beside = files_.sibling(get("f"), ".txt", 2, now_ns());
    ASSERT_FALSE(beside);
    EXPECT_EQ(beside.error(), FileRefusal::no_match);
    EXPECT_EQ(files_.open_count(), 1u);
}

TEST_F(FilesTest, WhatWasOpenedOnlyToLookStaysOpenNowhere) {
    const auto descriptors = [] { return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}); };
    const std::string path = folder_.write("f", "x"), other = folder_.write("other", "y");
    const std::uint64_t begin = now_ns();
    const ShadowFile file = **files_.under_root("f", 0, begin);
    struct stat info{};
    ASSERT_EQ(stat(other.c_str(), &info), 0);
    files_.opened(info.st_dev, info.st_ino, other, 0, 0);
    ShadowFile* replaced = files_.find(info.st_dev, info.st_ino);
    std::filesystem::copy_file(path, other + ".new");
    std::filesystem::rename(other + ".new", other);
    const auto before = descriptors();

    EXPECT_EQ(files_.open(*replaced), std::unexpected(FileRefusal::replaced));
    EXPECT_EQ(descriptors(), before) << "its path leads to another file";
    for (std::uint64_t minute = 1; minute < 4; minute++)
        EXPECT_EQ((*files_.under_root("f", 0, begin + minute * 60'000'000'000))->fd, file.fd);
    EXPECT_EQ(descriptors(), before) << "its path leads to the same file as ever";
    const auto self = static_cast<std::uint32_t>(getpid());
    EXPECT_TRUE(files_.search(self, file.device, file.inode, 0));
    EXPECT_FALSE(files_.search(self, file.device, file.inode, 2));
    EXPECT_FALSE(files_.search(self, info.st_dev, info.st_ino, 0));
    EXPECT_EQ(descriptors(), before) << "it was looked for among a process's descriptors";
}

TEST_F(FilesTest, AFileIsOpenedByTheNameThatAProgramKnewLast) {
    const std::string before = folder_.write("f", "x"), after = folder_.path() + "/g";
    struct stat info{};
    ASSERT_EQ(stat(before.c_str(), &info), 0);
    files_.opened(info.st_dev, info.st_ino, before, 0, 0);
    std::filesystem::rename(before, after);
    files_.opened(info.st_dev, info.st_ino, after, 0, 0);
    ShadowFile* file = files_.find(info.st_dev, info.st_ino);
    ASSERT_NE(file, nullptr);
    EXPECT_TRUE(files_.open(*file));
    EXPECT_EQ(files_.known(), 1u);
}

TEST_F(FilesTest, WhatIsInUseStaysOpenAndIsOpenedOnce) {
    for (int i = 0; i < 12; i++) folder_.write("f" + std::to_string(i), "x");
    ShadowFile& used = get("f0");
    used.pins++;
    const int fd = used.fd;
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 1; i < 12; i++) get("f" + std::to_string(i));
    }
    EXPECT_EQ(used.fd, fd);
    EXPECT_EQ(&get("f0"), &used);
    EXPECT_EQ(used.fd, fd);
    EXPECT_LE(files_.open_count(), kOpen);
    used.pins--;
}

TEST_F(FilesTest, WhatIsInUseIsNotForgottenForOthers) {
    const auto told = [&](std::uint64_t inode) -> ShadowFile& {
        return files_.opened(1, inode, folder_.path() + "/f" + std::to_string(inode), 0, 0);
    };
    ShadowFile& used = told(1);
    used.pins++;
    for (std::uint64_t inode = 2; inode < 4 * kKnown; inode++) told(inode);
    EXPECT_EQ(files_.known(), kKnown);
    EXPECT_EQ(files_.find(1, 1), &used);
    EXPECT_EQ(files_.find(1, 2), nullptr) << "nobody uses the one behind it";
    used.pins--;
}

}  // namespace
}  // namespace chainio::shadow::test
