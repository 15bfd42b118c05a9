#include "tests/support/reference.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>

#include "compiler/ir/interpret.h"

namespace chainio::tests {
namespace {

struct Run {
    const ir::Artifact& artifact;
    const ir::Chain& chain;
    const ReferenceRead& read;
    std::vector<std::uint64_t> memory;  // cio_io and its areas
    std::vector<std::uint32_t> files;   // what ReferenceRead gets, by file parameter
    std::vector<std::uint8_t> block;
    std::deque<cio_next> queue;
    ReferenceResult result;
    bool ended = false;

    cio_io& io() { return *reinterpret_cast<cio_io*>(memory.data()); }
    std::uint8_t* area(std::uint32_t offset) { return reinterpret_cast<std::uint8_t*>(memory.data()) + offset; }

    void end(std::uint32_t outcome) {
        result.outcome = outcome;
        ended = true;
    }

    void keep_bytes(const std::uint8_t* base, std::uint64_t size, std::uint64_t offset, std::uint64_t length) {
        if (offset + length > size) return end(CIO_MALFORMED);
        result.bytes.assign(base + offset, base + offset + length);
        end(CIO_OK);
    }

    void keep_result() {
        result.kind = static_cast<ir::ResultKind>(io().result_kind);
        const auto& layout = artifact.layout;
        if (io().result_kind == CIO_RESULT_SCALAR) {
            result.scalar = io().result;
            return end(CIO_OK);
        }
        if (io().result_kind == CIO_RESULT_NONE) {
            return keep_bytes(area(layout.out_offset), layout.out_size, 0, io().out_length);
        }
        const auto& literals = artifact.module.literals;
        const std::uint64_t offset = io().slice_offset, length = io().slice_length;
        switch (io().slice_space) {
            case CIO_SPACE_BLOCK: return keep_bytes(block.data(), io().block_length, offset, length);
            case CIO_SPACE_ARGS:
                return keep_bytes(area(layout.arg_bytes_offset), layout.arg_bytes_size, offset, length);
            case CIO_SPACE_STATE: return keep_bytes(area(layout.state_offset), layout.state_size, offset, length);
            default: return keep_bytes(literals.data(), literals.size(), offset, length);
        }
    }

    void run_program(std::int32_t program) {
        io().outcome = CIO_OK;
        io().finished = io().next_count = io().prefetch_count = 0;
        io().result_kind = CIO_RESULT_NONE;
        ir::interpret(artifact, static_cast<std::uint32_t>(program), io(), block.data());
        if (io().outcome != CIO_OK) return end(io().outcome);
        if (io().finished != 0) return keep_result();
        for (std::uint32_t i = 0; i < io().next_count; i++) {
            if (io().next[i].offset > INT64_MAX) return end(CIO_MALFORMED);
            if (result.hops == chain.hops) return end(CIO_HOP_LIMIT);
            result.hops++;
            queue.push_back(io().next[i]);
        }
    }

    void run_step(const cio_next& next) {
        block.assign(next.length + CIO_PAD, 0);
        const std::int64_t got = read(files[next.file], next.offset, std::span(block).first(next.length));
        if (got < 0) return end(CIO_IO_ERROR);
        if (got < next.length) return end(CIO_SHORT_READ);
        io().block_offset = next.offset;
        io().block_tag = next.tag;
        io().block_length = next.length;
        io().block_file = next.file;
        run_program(chain.steps[next.step].program);
    }

    void run_done() {
        block.assign(CIO_PAD, 0);
        io().block_offset = io().block_tag = io().block_length = io().block_file = 0;
        if (chain.done >= 0) run_program(chain.done);
        if (ended) return;
        if (!queue.empty()) return end(CIO_UNSUPPORTED);
        if (chain.result != ir::ResultKind::none) return end(CIO_NO_RESULT);
        io().result_kind = CIO_RESULT_NONE;
        keep_result();
    }
};

void bind(Run& run, const std::vector<ReferenceArgument>& args, const std::vector<ReferenceFile>& files) {
    std::uint32_t used = 0;
    for (std::size_t i = 0; i < args.size(); i++) {
        const ir::Param& param = run.chain.params[i];
        if (param.kind == ir::Param::Kind::file) {
            run.files.resize(std::max<std::size_t>(run.files.size(), param.slot + 1u));
            run.files[param.slot] = args[i].file;
        } else if (param.kind == ir::Param::Kind::scalar) {
            run.io().args[param.slot] = args[i].scalar;
        } else {
            if (!args[i].bytes.empty()) {
                std::memcpy(run.area(run.artifact.layout.arg_bytes_offset) + used, args[i].bytes.data(),
                            args[i].bytes.size());
            }
            run.io().args[param.slot] = used;
            run.io().args[param.slot + 1] = args[i].bytes.size();
            used += static_cast<std::uint32_t>(args[i].bytes.size());
        }
    }
    for (const auto& header : run.chain.header_args) {
        const ReferenceFile& file = files[run.files[header.file]];
        run.io().args[header.slot] = header.field == ir::kFileSizeField ? file.size : file.header[header.field];
    }
}

}  // namespace

ReferenceResult run_reference(const ir::Artifact& artifact, std::uint32_t chain_index,
                              const std::vector<ReferenceArgument>& args, const std::vector<ReferenceFile>& files,
                              const ReferenceRead& read) {
    const ir::Chain& chain = artifact.module.chains[chain_index];
    Run run{.artifact = artifact,
            .chain = chain,
            .read = read,
            .memory = {},
            .files = {},
            .block = {},
            .queue = {},
            .result = {}};
    run.memory.resize((std::max<std::size_t>(artifact.layout.total, sizeof(cio_io)) + CIO_PAD + 7) / 8);
    run.block.assign(CIO_PAD, 0);
    bind(run, args, files);
    if (!chain.initial_state.empty()) {
        std::memcpy(run.area(artifact.layout.state_offset), chain.initial_state.data(), chain.initial_state.size());
    }
    run.run_program(chain.entry);
    while (!run.ended && !run.queue.empty()) {
        const cio_next next = run.queue.front();
        run.queue.pop_front();
        run.run_step(next);
    }
    if (!run.ended) run.run_done();
    if (run.result.outcome != CIO_OK) {
        run.result.kind = ir::ResultKind::none;
        run.result.bytes.clear();
    }
    return run.result;
}

std::int64_t reference_pread(int fd, std::uint64_t offset, std::span<std::uint8_t> out) {
    std::size_t at = 0;
    while (at < out.size()) {
        const ssize_t got = pread(fd, out.data() + at, out.size() - at, static_cast<off_t>(offset + at));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return -errno;
        if (got == 0) break;
        at += static_cast<std::size_t>(got);
    }
    return static_cast<std::int64_t>(at);
}

}  // namespace chainio::tests
