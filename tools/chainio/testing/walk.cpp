#include "tools/chainio/testing/walk.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <optional>
#include <utility>

namespace chainio::testing {
namespace {

// A cio_io with its areas, and a block with the bytes behind it that steps may read.
class Memory {
  public:
    explicit Memory(const ir::IoLayout& layout)
        : layout_(layout),
          words_((std::max<std::size_t>(layout.total, sizeof(cio_io)) + CIO_PAD + 7) / 8 + 1),
          block_(CIO_MAX_BLOCK + CIO_PAD) {}
    cio_io& io() { return *reinterpret_cast<cio_io*>(words_.data()); }
    std::uint8_t* area(std::uint32_t offset) { return reinterpret_cast<std::uint8_t*>(words_.data()) + offset; }
    const std::uint8_t* block() const { return block_.data(); }

    void set_block(std::span<const std::uint8_t> bytes, std::uint64_t offset, std::uint64_t tag) {
        std::ranges::fill(block_, std::uint8_t{0});
        std::ranges::copy(bytes, block_.begin());
        io().block_length = static_cast<std::uint32_t>(bytes.size());
        io().block_offset = offset;
        io().block_tag = tag;
    }
    Bytes slice(const ir::Module& module) {
        const std::uint32_t offset = io().slice_offset;
        return copy(module, io().slice_space, offset, io().slice_length);
    }
    // Bounds are checked again here: a test tool must not crash on what a wrong compiler made.
    Bytes copy(const ir::Module& module, std::uint32_t space, std::uint32_t offset, std::uint32_t length) {
        const std::uint8_t* base = nullptr;
        std::uint64_t size = 0;
        switch (space) {
            case CIO_SPACE_BLOCK:
                base = block_.data();
                size = io().block_length;
                break;
            case CIO_SPACE_ARGS:
                base = area(layout_.arg_bytes_offset);
                size = layout_.arg_bytes_size;
                break;
            case CIO_SPACE_STATE:
                base = area(layout_.state_offset);
                size = layout_.state_size;
                break;
            case CIO_SPACE_LITERAL:
                base = module.literals.data();
                size = module.literals.size();
                break;
            default: break;
        }
        if (std::uint64_t{offset} + length > size) return {};
        return {base + offset, base + offset + length};
    }

  private:
    const ir::IoLayout& layout_;
    std::vector<std::uint64_t> words_;
    Bytes block_;
};

void clear_outputs(cio_io& io) {
    io.outcome = CIO_OK;
    io.finished = 0;
    io.next_count = 0;
    io.result_kind = CIO_RESULT_NONE;
    io.prefetch_count = 0;
}

// As with the runtime, a file whose header is not what the class says cannot be opened: the outcome of that.
std::expected<std::vector<std::uint64_t>, std::uint32_t> header_of(const ir::Artifact& artifact, Steps& steps,
                                                                   const ir::FileClass& files, const FileView& file) {
    std::vector<std::uint64_t> fields;
    if (files.header_program < 0) return fields;
    const auto head = file.read(0, files.header_bytes);
    if (!head) return std::unexpected<std::uint32_t>(CIO_IO_ERROR);
    if (head->size() < files.header_bytes) return std::unexpected<std::uint32_t>(CIO_SHORT_READ);
    Memory memory(artifact.layout);
    memory.set_block(*head, 0, 0);
    clear_outputs(memory.io());
    const auto ran = steps.run(static_cast<std::uint32_t>(files.header_program), memory.io(), memory.block());
    if (!ran || memory.io().outcome != CIO_OK)
        return std::unexpected<std::uint32_t>(ran && memory.io().outcome == CIO_SHORT_READ ? CIO_SHORT_READ
                                                                                           : CIO_MALFORMED);
    fields.resize(memory.io().out_length / 8);
    std::memcpy(fields.data(), memory.area(artifact.layout.out_offset), fields.size() * 8);
    const auto length = std::ranges::find(files.header_fields, ir::kFileSizeName) - files.header_fields.begin();
    if (std::cmp_less(length, fields.size()) && file.size() < fields[static_cast<std::size_t>(length)])
        return std::unexpected<std::uint32_t>(CIO_SHORT_READ);
    return fields;
}

// Scalars and bytes of a chain's parameters, in order.
void bind_arguments(const ir::Artifact& artifact, const ir::Chain& chain, const std::vector<Value>& args,
                    Memory& memory) {
    std::size_t arg = 0;
    std::uint32_t bytes_at = 0;
    for (const auto& param : chain.params) {
        if (param.kind == ir::Param::Kind::file) continue;
        const Value& value = args[arg++];
        if (param.kind == ir::Param::Kind::scalar) {
            memory.io().args[param.slot] = value.integer;
            continue;
        }
        memory.io().args[param.slot] = bytes_at;
        memory.io().args[param.slot + 1] = value.bytes.size();
        std::ranges::copy(value.bytes, memory.area(artifact.layout.arg_bytes_offset) + bytes_at);
        bytes_at += static_cast<std::uint32_t>(value.bytes.size());
    }
}

class Walk {
  public:
    Walk(const ir::Artifact& artifact, Steps& steps, const CallInput& input)
        : artifact_(artifact),
          steps_(steps),
          input_(input),
          chain_(artifact.module.chains[input.chain]),
          memory_(artifact.layout) {}

    std::expected<Outcome, std::string> run() {
        if (auto bound = bind(); !bound) return std::unexpected(bound.error());
        if (done_.outcome != CIO_OK) return done_;
        std::ranges::copy(chain_.initial_state, memory_.area(artifact_.layout.state_offset));
        std::optional<std::string> error = step(static_cast<std::uint32_t>(chain_.entry));
        while (!error && !ended_ && !queue_.empty()) error = read_next();
        if (!error && !ended_) error = after_last_read();
        if (error) return std::unexpected(*error);
        return done_;
    }

  private:
    std::expected<void, std::string> bind() {
        bind_arguments(artifact_, chain_, input_.args, memory_);
        return bind_headers();
    }

    std::expected<void, std::string> bind_headers() {
        std::vector<std::vector<std::uint64_t>> headers;
        for (const auto& param : chain_.params) {
            if (param.kind != ir::Param::Kind::file) continue;
            auto fields =
                header_of(artifact_, steps_, artifact_.module.files[param.file_class], input_.files[param.slot]);
            if (!fields) {
                done_.outcome = fields.error();
                return {};
            }
            headers.push_back(std::move(*fields));
        }
        for (const auto& arg : chain_.header_args) {
            const bool size = arg.field == ir::kFileSizeField;
            if (!size && arg.field >= headers[arg.file].size())
                return std::unexpected(std::string("the header program gave too few fields"));
            memory_.io().args[arg.slot] = size ? input_.files[arg.file].size() : headers[arg.file][arg.field];
        }
        return {};
    }

    std::optional<std::string> step(std::uint32_t program) {
        clear_outputs(memory_.io());
        if (auto ran = steps_.run(program, memory_.io(), memory_.block()); !ran) return ran.error();
        const cio_io& io = memory_.io();
        if (io.outcome != CIO_OK) {
            end(io.outcome);
        } else if (io.finished != 0) {
            take_result();
        } else {
            queue_.insert(queue_.end(), io.next, io.next + std::min<std::uint32_t>(io.next_count, CIO_MAX_NEXT));
            if (done_.reads.size() + queue_.size() > chain_.hops) end(CIO_HOP_LIMIT);
        }
        return std::nullopt;
    }

    std::optional<std::string> read_next() {
        const cio_next next = queue_.front();
        queue_.pop_front();
        done_.reads.push_back({file_name(next.file), next.offset, next.length});
        const FileView& file = input_.files[next.file];
        if (next.offset >> 63 != 0) {
            end(CIO_MALFORMED);
            return std::nullopt;
        }
        const auto block = file.read(next.offset, next.length);
        if (!block || block->size() < next.length) {
            end(block ? CIO_SHORT_READ : CIO_IO_ERROR);
            return std::nullopt;
        }
        memory_.set_block(*block, next.offset, next.tag);
        memory_.io().block_file = next.file;
        return step(chain_.steps[next.step].program);
    }

    std::optional<std::string> after_last_read() {
        if (chain_.done >= 0) {
            memory_.set_block({}, 0, 0);
            if (auto error = step(static_cast<std::uint32_t>(chain_.done))) return error;
            if (ended_) return std::nullopt;
        }
        if (chain_.result == ir::ResultKind::none) {
            take_result();
        } else {
            end(CIO_NO_RESULT);
        }
        return std::nullopt;
    }

    void take_result() {
        const cio_io& io = memory_.io();
        ended_ = true;
        if (io.result_kind == CIO_RESULT_SCALAR) {
            done_.kind = ir::ResultKind::scalar;
            done_.scalar = io.result;
        } else if (io.result_kind == CIO_RESULT_SLICE) {
            done_.kind = ir::ResultKind::slice;
            done_.bytes = memory_.slice(artifact_.module);
        } else {
            const std::uint8_t* out = memory_.area(artifact_.layout.out_offset);
            done_.bytes.assign(out, out + std::min(io.out_length, artifact_.layout.out_size));
        }
    }

    void end(std::uint32_t outcome) {
        ended_ = true;
        done_.outcome = outcome;
    }

    std::string file_name(std::uint16_t slot) const {
        for (const auto& param : chain_.params) {
            if (param.kind == ir::Param::Kind::file && param.slot == slot) return param.name;
        }
        return fmt::format("file {}", slot);
    }

    const ir::Artifact& artifact_;
    Steps& steps_;
    const CallInput& input_;
    const ir::Chain& chain_;
    Memory memory_;
    std::deque<cio_next> queue_;
    Outcome done_;
    bool ended_ = false;
};

bool is_call(const cio_prefetch& prefetch) {
    return prefetch.kind == CIO_PREFETCH_CHAIN || prefetch.kind == CIO_PREFETCH_MARK_VIA;
}

std::string target_name(const ir::Module& module, const cio_prefetch& prefetch) {
    if (is_call(prefetch)) return prefetch.target < module.chains.size() ? module.chains[prefetch.target].name : "?";
    if (prefetch.kind == CIO_PREFETCH_SAME || prefetch.kind == CIO_PREFETCH_MARK) return "";
    return prefetch.target < module.files.size() ? module.files[prefetch.target].name : "?";
}

std::size_t scalar_count(const ir::Module& module, const cio_prefetch& prefetch) {
    if (!is_call(prefetch) || prefetch.target >= module.chains.size()) return 0;
    const auto& params = module.chains[prefetch.target].params;
    const auto count =
        std::ranges::count_if(params, [](const ir::Param& p) { return p.kind == ir::Param::Kind::scalar; });
    return std::min<std::size_t>(static_cast<std::size_t>(count), std::size(prefetch.args));
}

// What a shadow chain knows of its event beside the block; how far the kernel would read ahead it is not told. The
// outcome of what a run would not show it.
std::uint32_t bind_event_facts(const ir::Artifact& artifact, Steps& steps, const ir::Chain& chain,
                               const BoundEvent& event, Memory& memory) {
    std::vector<std::uint64_t> header;
    if (event.file != nullptr && chain.mode != ir::ChainMode::on_ready) {
        auto fields = header_of(artifact, steps, artifact.module.files[chain.source], FileView(*event.file));
        if (!fields) return fields.error();
        header = std::move(*fields);
    }
    for (const auto& arg : chain.header_args) {
        auto& to = memory.io().args[arg.slot];
        if (arg.field == ir::kMarkField) to = event.mark;
        if (arg.field == ir::kLastMarkField) to = event.last_mark;
        if (arg.field == ir::kFileSizeField && event.file != nullptr) to = event.file->size();
        if (arg.field < header.size()) to = header[arg.field];
    }
    return CIO_OK;
}

}  // namespace

std::expected<Bytes, int> FileView::read(std::uint64_t at, std::uint32_t length) const {
    const auto there = static_cast<std::uint32_t>(at < size_ ? std::min<std::uint64_t>(length, size_ - at) : 0);
    if (bytes_ != nullptr) {
        const auto begin = bytes_->begin() + static_cast<std::ptrdiff_t>(std::min(at, size_));
        return Bytes(begin, begin + there);
    }
    Bytes out(there);
    for (std::size_t done = 0; done < out.size();) {
        const ssize_t got = pread(fd_, out.data() + done, out.size() - done, static_cast<off_t>(at + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return std::unexpected(errno);
        if (got == 0) out.resize(done);
        done += static_cast<std::size_t>(got);
    }
    return out;
}

std::expected<Outcome, std::string> walk(const ir::Artifact& artifact, Steps& steps, const CallInput& input) {
    return Walk(artifact, steps, input).run();
}

std::expected<Outcome, std::string> react(const ir::Artifact& artifact, Steps& steps, std::uint32_t chain,
                                          const BoundEvent& event, const std::vector<Value>& args) {
    Memory memory(artifact.layout);
    if (artifact.module.chains[chain].mode == ir::ChainMode::on_probe)
        bind_arguments(artifact, artifact.module.chains[chain], args, memory);
    memory.set_block(std::span(event.block).first(std::min<std::size_t>(event.block.size(), CIO_MAX_BLOCK)), event.at,
                     event.total);
    Outcome done;
    done.outcome = bind_event_facts(artifact, steps, artifact.module.chains[chain], event, memory);
    if (done.outcome != CIO_OK) return done;
    clear_outputs(memory.io());
    const auto program = static_cast<std::uint32_t>(artifact.module.chains[chain].shadow);
    if (auto ran = steps.run(program, memory.io(), memory.block()); !ran) return std::unexpected(ran.error());
    done.outcome = memory.io().outcome;
    const std::uint32_t count = std::min(memory.io().prefetch_count, artifact.layout.prefetch_count);
    for (std::uint32_t i = 0; done.outcome == CIO_OK && i < count; i++) {
        cio_prefetch entry{};
        std::memcpy(&entry, memory.area(artifact.layout.prefetch_offset) + i * sizeof entry, sizeof entry);
        DonePrefetch prefetch{entry.kind, target_name(artifact.module, entry), {}, entry.offset, entry.length, {}};
        if (entry.name_length > 0)
            prefetch.name = memory.copy(artifact.module, entry.name_space, entry.name_offset, entry.name_length);
        prefetch.args.assign(entry.args, entry.args + scalar_count(artifact.module, entry));
        done.prefetches.push_back(std::move(prefetch));
    }
    return done;
}

}  // namespace chainio::testing
