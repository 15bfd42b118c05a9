#include <elf.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <future>
#include <random>

#include "compiler/backends/backends.h"
#include "compiler/ir/hash.h"
#include "compiler/ir/interpret.h"
#include "compiler/ir/seal.h"
#include "runtime/spec/elf_sections.h"
#include "runtime/spec/loaded.h"
#include "runtime/spec/outcomes.h"
#include "tests/support/in_child.h"
#include "tests/support/machine_file.h"
#include "tests/support/soak.h"

namespace chainio::spec {
namespace {

using tests::machine_artifact;
using tests::TempFile;

// Offset in the file of the header of the section that begins with `prefix`.
std::size_t section_header(const std::vector<std::uint8_t>& file, const std::string& prefix) {
    Elf64_Ehdr elf;
    std::memcpy(&elf, file.data(), sizeof elf);
    Elf64_Shdr names;
    std::memcpy(&names, file.data() + elf.e_shoff + elf.e_shstrndx * sizeof(Elf64_Shdr), sizeof names);
    for (unsigned i = 1; i < elf.e_shnum; i++) {
        const std::size_t at = elf.e_shoff + i * sizeof(Elf64_Shdr);
        Elf64_Shdr header;
        std::memcpy(&header, file.data() + at, sizeof header);
        const char* name = reinterpret_cast<const char*>(file.data()) + names.sh_offset + header.sh_name;
        if (std::string(name).starts_with(prefix)) return at;
    }
    ADD_FAILURE() << "no section " << prefix;
    return 0;
}

template <typename F>
std::vector<std::uint8_t> with_header(const std::string& section, F change) {
    std::vector<std::uint8_t> file = machine_artifact();
    const std::size_t at = section_header(file, section);
    Elf64_Shdr header;
    std::memcpy(&header, file.data() + at, sizeof header);
    change(header, file);
    std::memcpy(file.data() + at, &header, sizeof header);
    return file;
}

TEST(Loaded, OpensAnArtifactWithItsNativeCode) {
    const TempFile file(machine_artifact());
    auto loaded = Loaded::open(file.path());
    ASSERT_TRUE(loaded) << loaded.error().message;
    EXPECT_TRUE((*loaded)->native()) << (*loaded)->interpreter_reason();
    EXPECT_EQ((*loaded)->module().app, "machine");
    EXPECT_EQ((*loaded)->native_arches(), std::vector<std::string>{std::string(host_arch())});
    EXPECT_EQ((*loaded)->bpf_programs().size(), (*loaded)->module().programs.size());
    EXPECT_EQ((*loaded)->find_chain("second"), 1u);
    EXPECT_EQ((*loaded)->find_chain("third"), std::nullopt);
    EXPECT_EQ((*loaded)->find_file_class("kept"), 1u);
}

TEST(Loaded, NativeAndInterpretedStepsAgree) {
    auto native = Loaded::from_bytes(machine_artifact(), "native");
    auto interpreted = Loaded::from_bytes(machine_artifact(), "interpreted", {.use_native = false});
    ASSERT_TRUE(native && interpreted);
    ASSERT_TRUE((*native)->native());
    EXPECT_EQ((*interpreted)->interpreter_reason(), "native code was not asked for");
    std::mt19937_64 random(tests::soak_seed());
    const std::uint32_t total = (*native)->artifact().layout.total;
    for (int i = 0; i < 2000; i++) {
        std::vector<std::uint64_t> a(total / 8 + 2), b(total / 8 + 2);
        std::vector<std::uint8_t> block(256 + CIO_PAD);
        for (auto& byte : block) byte = static_cast<std::uint8_t>(random());
        block[0] = static_cast<std::uint8_t>(random() % 8);
        block[1] = static_cast<std::uint8_t>(random() % 18);
        for (auto* memory : {&a, &b}) {
            auto& io = *reinterpret_cast<cio_io*>(memory->data());
            io.block_length = static_cast<std::uint32_t>(20 * (i % 12));
        }
        (*native)->run(1, *reinterpret_cast<cio_io*>(a.data()), block.data());
        (*interpreted)->run(1, *reinterpret_cast<cio_io*>(b.data()), block.data());
        auto* left = reinterpret_cast<cio_io*>(a.data());
        auto* right = reinterpret_cast<cio_io*>(b.data());
        ASSERT_EQ(left->outcome, right->outcome);
        ASSERT_EQ(left->finished, right->finished);
        ASSERT_EQ(left->next_count, right->next_count);
        ASSERT_EQ(left->result, right->result);
        for (std::uint32_t n = 0; n < left->next_count; n++) ASSERT_EQ(left->next[n].offset, right->next[n].offset);
    }
}

// The kind of result that the native code gives.
std::uint32_t result_kind_of(const Loaded& loaded) {
    std::vector<std::uint8_t> block(64 + CIO_PAD);
    block[0] = engine::test::kReturnSum;
    std::vector<std::uint64_t> memory(loaded.artifact().layout.total / 8 + 2);
    auto& io = *reinterpret_cast<cio_io*>(memory.data());
    io.block_length = 64;
    loaded.run(1, io, block.data());
    EXPECT_EQ(io.finished, 1u);
    return io.result_kind;
}

TEST(Loaded, ManyArtifactsAtOnceKeepTheirOwnCode) {
    ir::Artifact other = engine::test::machine({.result = ir::ResultKind::none});
    auto built = backends::build_artifact(other, {});
    ASSERT_TRUE(built) << built.error();
    for (int turn = 0; turn < 3; turn++) {
        auto first = Loaded::from_bytes(machine_artifact(), "first");
        auto second = Loaded::from_bytes(*built, "second");
        ASSERT_TRUE(first && second);
        EXPECT_EQ(result_kind_of(**first), static_cast<std::uint32_t>(CIO_RESULT_SCALAR));
        EXPECT_EQ(result_kind_of(**second), static_cast<std::uint32_t>(CIO_RESULT_NONE));
    }
}

// Numbers of descriptors are free again there, while the code that was loaded by them stays.
TEST(Loaded, AChildThatClosedAllDescriptorsGetsTheCodeOfItsOwnArtifact) {
    ir::Artifact other = engine::test::machine({.result = ir::ResultKind::none});
    auto built = backends::build_artifact(other, {});
    ASSERT_TRUE(built) << built.error();
    const auto first = Loaded::from_bytes(machine_artifact(), "first");
    ASSERT_TRUE(first && (*first)->native());
    EXPECT_EQ(tests::in_child([&] {
                  close_range(3, ~0u, 0);
                  const auto second = Loaded::from_bytes(*built, "second");
                  if (!second || !(*second)->native()) return 1;
                  if (result_kind_of(**second) != static_cast<std::uint32_t>(CIO_RESULT_NONE)) return 2;
                  return result_kind_of(**first) == static_cast<std::uint32_t>(CIO_RESULT_SCALAR) ? 0 : 3;
              }),
              0);
}

TEST(Loaded, FallsBackToTheInterpreterWithAReason) {
    ir::Artifact machine = engine::test::machine({});
    const auto without = backends::build_artifact(machine, {"", {"none"}, 2});
    ASSERT_TRUE(without) << without.error();
    auto none = Loaded::from_bytes(*without, "a");
    ASSERT_TRUE(none);
    EXPECT_FALSE((*none)->native());
    EXPECT_NE((*none)->interpreter_reason().find("has no native code for"), std::string::npos);
    const auto broken = with_header(".chainio.native.", [](Elf64_Shdr& header, std::vector<std::uint8_t>& file) {
        const auto at = file.begin() + static_cast<std::ptrdiff_t>(header.sh_offset);
        std::fill_n(at, 64, 'x');
        const auto resealed = ir::sealed({at, at + static_cast<std::ptrdiff_t>(header.sh_size - 4)});
        std::ranges::copy(resealed, at);
    });
    auto refused = Loaded::from_bytes(broken, "b");
    ASSERT_TRUE(refused);
    EXPECT_FALSE((*refused)->native());
    EXPECT_NE((*refused)->interpreter_reason().find("does not load"), std::string::npos)
        << (*refused)->interpreter_reason();
    std::vector<std::uint64_t> memory((*refused)->artifact().layout.total / 8 + 2);
    std::vector<std::uint8_t> block(64 + CIO_PAD);
    block[0] = engine::test::kNotFound;
    auto& io = *reinterpret_cast<cio_io*>(memory.data());
    io.block_length = 64;
    (*refused)->run(1, io, block.data());
    EXPECT_EQ(io.outcome, static_cast<std::uint32_t>(CIO_NOT_FOUND));
}

TEST(Loaded, RefusesDamagedCode) {
    for (const char* section : {".chainio.native.", ".chainio.kernel"}) {
        for (std::size_t part = 0; part < 16; part++) {
            const auto damaged = with_header(section, [&](Elf64_Shdr& header, std::vector<std::uint8_t>& file) {
                file[header.sh_offset + part * (header.sh_size - 1) / 15] ^= 0x10;
            });
            const auto refused = Loaded::from_bytes(damaged, "a");
            ASSERT_FALSE(refused) << section << " " << part;
            EXPECT_NE(refused.error().message.find("is damaged: the checksum does not match"), std::string::npos)
                << refused.error().message;
        }
        const auto cut = with_header(section, [](Elf64_Shdr& header, auto&) { header.sh_size = 3; });
        EXPECT_FALSE(Loaded::from_bytes(cut, "a")) << section;
    }
}

TEST(Loaded, KeepsWhatTheKernelRunsOnlyForWhoLoadsIt) {
    const auto whole = Loaded::from_bytes(machine_artifact(), "a");
    const auto beside = Loaded::from_bytes(machine_artifact(), "b", {.for_kernel = false});
    ASSERT_TRUE(whole && beside);
    EXPECT_FALSE((*whole)->kernel_object().empty());
    EXPECT_TRUE((*beside)->kernel_object().empty());
    EXPECT_TRUE((*beside)->native());
}

TEST(Loaded, WhatWasProvenIsProvenAgainOnlyWhereItIsInterpreted) {
    const auto broken = with_header(".chainio.spec", [](Elf64_Shdr& header, std::vector<std::uint8_t>& file) {
        auto artifact = ir::deserialize(std::span(file).subspan(header.sh_offset, header.sh_size));
        ASSERT_TRUE(artifact) << artifact.error();
        artifact->module.programs[1].reg_count = 0;  // and uses registers all the same
        const auto bytes = ir::serialize(*artifact);
        ASSERT_EQ(bytes.size(), header.sh_size);
        std::ranges::copy(bytes, file.begin() + static_cast<std::ptrdiff_t>(header.sh_offset));
    });
    EXPECT_FALSE(Loaded::from_bytes(broken, "a"));
    const auto proven = Loaded::from_bytes(broken, "b", {.use_native = true, .programs = ir::Programs::proven});
    ASSERT_TRUE(proven);
    EXPECT_TRUE((*proven)->native());
    const auto interpreted = Loaded::from_bytes(broken, "c", {.use_native = false, .programs = ir::Programs::proven});
    ASSERT_FALSE(interpreted);
    EXPECT_NE(interpreted.error().message.find("its .chainio.spec is not valid: program 1"), std::string::npos)
        << interpreted.error().message;
}

TEST(Loaded, RefusesByNameAndReason) {
    const auto missing = Loaded::open("/nonexistent/app.bpf.o");
    ASSERT_FALSE(missing);
    EXPECT_TRUE(missing.error().system);
    EXPECT_EQ(missing.error().message, "cannot read artifact '/nonexistent/app.bpf.o': No such file or directory");
    EXPECT_EQ(Loaded::open("/nonexistent/app.chain").error().message,
              "cannot read artifact '/nonexistent/app.chain': No such file or directory; `chainc SOURCE -o app.bpf.o` "
              "makes one of a source");
    const auto directory = Loaded::open("/tmp");
    ASSERT_FALSE(directory);
    EXPECT_TRUE(directory.error().system);
    const TempFile large({});
    ASSERT_EQ(truncate(large.path().c_str(), (off_t{256} << 20) + 1), 0);
    const auto too_large = Loaded::open(large.path());
    ASSERT_FALSE(too_large);
    EXPECT_EQ(too_large.error().message,
              "cannot read artifact '" + large.path() + "': it is larger than 256 MiB, which no artifact is");

    const std::string text = "hello";
    const auto not_elf = Loaded::from_bytes({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}, "x.o");
    ASSERT_FALSE(not_elf);
    EXPECT_FALSE(not_elf.error().system);
    EXPECT_EQ(
        not_elf.error().message,
        "'x.o' is not a ChainIO artifact: it is not an ELF file; `chainc app.chain -o app.bpf.o` makes an artifact");

    const auto renamed = with_header(".chainio.spec", [](Elf64_Shdr& header, auto&) { header.sh_name++; });
    const auto no_section = Loaded::from_bytes(renamed, "x.o");
    ASSERT_FALSE(no_section);
    EXPECT_NE(no_section.error().message.find("no section .chainio.spec"), std::string::npos);

    const auto past_end =
        with_header(".chainio.spec", [](Elf64_Shdr& header, auto&) { header.sh_offset = UINT64_MAX - 8; });
    EXPECT_FALSE(Loaded::from_bytes(past_end, "x.o"));
    const auto huge = with_header(".chainio.spec", [](Elf64_Shdr& header, auto&) { header.sh_size = UINT64_MAX; });
    EXPECT_FALSE(Loaded::from_bytes(huge, "x.o"));
}

constexpr OpenOptions kInterpreted{.use_native = false};

// Whoever reads it in a thread, as a reload does, could not be ended while it waits for a writer.
TEST(Loaded, RefusesTwoSpecifications) {
    const auto file =
        with_header(std::string(kNativePrefix), [](Elf64_Shdr& header, const std::vector<std::uint8_t>& bytes) {
            Elf64_Shdr spec;
            std::memcpy(&spec, bytes.data() + section_header(bytes, std::string(kSpecSection)), sizeof spec);
            header.sh_name = spec.sh_name;
        });
    const auto loaded = Loaded::from_bytes(file, "x.o");
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().message, "'x.o' is not a ChainIO artifact: it has two sections .chainio.spec");
}

TEST(Loaded, WaitsForNoWriterOfANamedPipe) {
    const std::string path = testing::TempDir() + "pipe." + std::to_string(getpid()) + ".o";
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    auto opening = std::async(std::launch::async, [&] { return Loaded::open(path); });
    const bool ended = opening.wait_for(std::chrono::seconds(10)) == std::future_status::ready;
    const int writer = ended ? -1 : ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    const auto opened = opening.get();
    if (writer >= 0) close(writer);
    unlink(path.c_str());
    EXPECT_TRUE(ended) << "it waited for a writer";
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().message, "cannot read artifact '" + path + "': it is not a regular file");
}

TEST(Loaded, RefusesEveryCutFileByName) {
    const auto& good = machine_artifact();
    for (std::size_t size = 0; size < good.size(); size += 1 + size / 64) {
        const auto loaded = Loaded::from_bytes(std::span(good).first(size), "cut", kInterpreted);
        ASSERT_FALSE(loaded) << size << " of " << good.size() << " bytes";
        EXPECT_FALSE(loaded.error().system) << size;
        EXPECT_TRUE(loaded.error().message.starts_with("'cut' is not a ChainIO artifact: i")) << loaded.error().message;
    }
}

void expect_refused_by_name(const OpenError& error) {
    EXPECT_FALSE(error.system);
    EXPECT_TRUE(error.message.starts_with("'mutated' is not a ChainIO artifact: ")) << error.message;
}

// What the engine relies on.
void expect_sound(const Loaded& loaded) {
    EXPECT_EQ(ir::validate(loaded.module()), "");
    EXPECT_EQ(loaded.artifact().bounds.size(), loaded.module().programs.size());
    for (const ir::Chain& chain : loaded.module().chains) EXPECT_TRUE(loaded.find_chain(chain.name)) << chain.name;
    const std::vector<std::uint8_t> written = ir::serialize(loaded.artifact());
    const auto again = ir::deserialize(written);
    ASSERT_TRUE(again) << again.error();
    EXPECT_EQ(ir::serialize(*again), written);
}

// A checksum is over all that is read of a file, so that what is opened in spite of a change is what was written.
TEST(Loaded, OpensAMutatedFileUnchangedOrRefusesIt) {
    const auto& good = machine_artifact();
    const std::vector<std::uint8_t> written =
        ir::serialize((*Loaded::from_bytes(good, "good", kInterpreted))->artifact());
    std::mt19937_64 random(tests::soak_seed());
    std::uint64_t opened = 0, refused = 0;
    for (std::uint64_t i = 0; i < tests::soak_count(2000, 100'000); i++) {
        std::vector<std::uint8_t> file = good;
        for (unsigned n = 1 + random() % 8; n > 0; n--)
            file[random() % file.size()] = static_cast<std::uint8_t>(random());
        const auto loaded = Loaded::from_bytes(file, "mutated", kInterpreted);
        loaded ? opened++ : refused++;
        if (!loaded) {
            expect_refused_by_name(loaded.error());
        } else {
            ASSERT_EQ(ir::serialize((*loaded)->artifact()), written)
                << "seed " << tests::soak_seed() << ", change " << i;
        }
    }
    EXPECT_GT(opened, 0u);
    EXPECT_GT(refused, 0u);
}

// With a checksum that fits, it is the specification's rules that have to hold.
TEST(Loaded, OpensAMutatedSpecificationOnlyWhenItHolds) {
    constexpr std::size_t kChecksum = 16, kPayload = 24;
    const auto& good = machine_artifact();
    Elf64_Shdr header;
    std::memcpy(&header, good.data() + section_header(good, std::string(kSpecSection)), sizeof header);
    std::mt19937_64 random(tests::soak_seed() + 1);
    std::uint64_t opened = 0, refused = 0;
    for (std::uint64_t i = 0; i < tests::soak_count(2000, 100'000) && !testing::Test::HasFailure(); i++) {
        std::vector<std::uint8_t> file = good;
        const auto spec = std::span(file).subspan(header.sh_offset, header.sh_size);
        const auto payload = spec.subspan(kPayload);
        for (unsigned n = 1 + random() % 3; n > 0; n--)
            payload[random() % payload.size()] = static_cast<std::uint8_t>(random() % 4 == 0 ? random() : random() % 8);
        const std::uint32_t checksum = ir::crc32c(payload);
        std::memcpy(spec.data() + kChecksum, &checksum, sizeof checksum);
        SCOPED_TRACE("seed " + std::to_string(tests::soak_seed()) + ", change " + std::to_string(i));
        const auto loaded = Loaded::from_bytes(file, "mutated", kInterpreted);
        loaded ? opened++ : refused++;
        loaded ? expect_sound(**loaded) : expect_refused_by_name(loaded.error());
    }
    EXPECT_GT(opened, 0u);
    EXPECT_GT(refused, 0u);
}

TEST(Outcomes, HaveNamesInOrder) {
    for (std::uint32_t i = 0; i < outcomes().size(); i++) {
        EXPECT_EQ(outcomes()[i].number, i);
        EXPECT_FALSE(outcomes()[i].meaning.empty());
    }
    EXPECT_EQ(outcome_name(CIO_HOP_LIMIT, {}), "hop_limit");
    EXPECT_EQ(outcome_name(CIO_USER + 1, {"first", "second"}), "second");
    EXPECT_EQ(outcome_name(CIO_USER + 2, {"first", "second"}), "outcome_34");
    EXPECT_EQ(outcome_name(20, {}), "outcome_20");
}

}  // namespace
}  // namespace chainio::spec
