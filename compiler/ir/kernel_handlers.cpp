#include "compiler/ir/kernel_handlers.h"

#include <algorithm>
#include <set>

#include "bpf-templates/chainio_step.h"
#include "compiler/ir/size.h"
#include "compiler/ir/visit.h"

namespace chainio::ir {
namespace {

// Numbers are written with at most that many digits.
constexpr std::uint64_t kMostDigits = 20;

std::uint64_t widest_read(const Body& body) {
    std::uint64_t widest = 0;
    for (const Stmt& stmt : body) {
        if (const auto* next = std::get_if<Next>(&stmt.node))
            widest = std::max<std::uint64_t>(widest, next->length.is_imm ? next->length.value : CIO_MAX_BLOCK);
        for_each_body(stmt, [&](const Body& nested) { widest = std::max(widest, widest_read(nested)); });
    }
    return widest;
}

bool returns_from(const Body& body, Space space) {
    bool found = false;
    for (const Stmt& stmt : body) {
        const auto* end = std::get_if<Return>(&stmt.node);
        found = found || (end != nullptr && end->kind == ResultKind::slice && end->slice.space == space);
        for_each_body(stmt, [&](const Body& nested) { found = found || returns_from(nested, space); });
    }
    return found;
}

std::set<std::uint32_t> programs_of(const Chain& chain) {
    std::set<std::uint32_t> programs;
    if (chain.entry >= 0) programs.insert(static_cast<std::uint32_t>(chain.entry));
    if (chain.done >= 0) programs.insert(static_cast<std::uint32_t>(chain.done));
    for (const Step& step : chain.steps) programs.insert(step.program);
    return programs;
}

bool returns_from(const Module& module, const Chain& chain, Space space) {
    return std::ranges::any_of(
        programs_of(chain), [&](std::uint32_t program) { return returns_from(module.programs[program].body, space); });
}

std::uint64_t longest_result(const Module& module, const Chain& chain) {
    if (chain.result != ResultKind::slice) return chain.result_max;
    if (returns_from(module, chain, Space::args) || returns_from(module, chain, Space::state)) return chain.result_max;
    std::uint64_t widest = 0;
    for (const std::uint32_t program : programs_of(chain))
        widest = std::max(widest, widest_read(module.programs[program].body));
    return std::min<std::uint64_t>(widest, chain.result_max);
}

std::uint64_t most_bytes(Format number) {
    const std::uint32_t width = width_of(number);
    return width != 0 ? width : kMostDigits;
}

void collect(const Body& body, std::vector<const CallChain*>& calls) {
    for (const Stmt& stmt : body) {
        if (const auto* call = std::get_if<CallChain>(&stmt.node)) calls.push_back(call);
        for_each_body(stmt, [&](const Body& nested) { collect(nested, calls); });
    }
}

// What a program of a service does: how long its replies are, and what stands in the way of running it in the kernel.
class Handler {
  public:
    Handler(const Module& module, const Service& service, std::uint32_t program)
        : module_(module), service_(service), body_(module.programs[program].body) {
        collect(body_, calls_);
    }
    std::uint64_t replies() const { return replies(body_); }
    std::uint32_t calls() const { return calls(body_); }
    std::string obstacle() const { return obstacle(body_); }

  private:
    std::uint64_t replies(const Body& body) const {
        std::uint64_t bytes = 0;
        for (const Stmt& stmt : body) {
            std::uint64_t nested = 0;
            if (const auto* reply = std::get_if<Reply>(&stmt.node)) bytes += reply_bytes(*reply);
            if (const auto* loop = std::get_if<Loop>(&stmt.node)) nested = loop->max * replies(loop->body);
            if (const auto* either = std::get_if<If>(&stmt.node))
                nested = std::max(replies(either->yes), replies(either->no));
            bytes = std::min<std::uint64_t>(bytes + nested, std::uint64_t{1} << 32);
        }
        return bytes;
    }

    // The most calls on any path that does not end early.
    std::uint32_t calls(const Body& body) const {
        std::uint32_t count = 0;
        for (const Stmt& stmt : body) {
            if (std::holds_alternative<CallChain>(stmt.node)) count++;
            if (const auto* either = std::get_if<If>(&stmt.node))
                count += std::max(calls(either->yes), calls(either->no));
            if (const auto* loop = std::get_if<Loop>(&stmt.node)) count += calls(loop->body) != 0 ? 2 : 0;
        }
        return count;
    }

    std::string obstacle(const Body& body) const {
        for (const Stmt& stmt : body) {
            std::string wrong = std::visit([this](const auto& node) { return this->check(node); }, stmt.node);
            for_each_body(stmt, [&](const Body& nested) {
                if (wrong.empty()) wrong = obstacle(nested);
            });
            if (!wrong.empty()) return wrong;
        }
        return {};
    }

    std::uint64_t reply_bytes(const Reply& reply) const {
        std::uint64_t bytes = 0;
        for (const ReplyPart& part : reply.parts)
            bytes += part.format == Format::bytes ? slice_bytes(part.bytes) : most_bytes(part.format);
        return bytes;
    }

    std::uint64_t slice_bytes(const Slice& slice) const {
        if (slice.length.is_imm) return slice.length.value;
        if (slice.space == Space::literal) return module_.literals.size();
        if (slice.space != Space::result) return service_.tcp_framing.bytes;
        std::uint64_t longest = 0;
        for (const CallChain* call : calls_) {
            if (slice.offset.is_imm && slice.offset.value >> 32 != call->result) continue;
            longest = std::max(longest, longest_result(module_, module_.chains[call->chain]));
        }
        return longest;
    }

    static bool readable(Space space) { return space == Space::block || space == Space::literal; }
    static std::string unreadable(Space space) {
        return readable(space) ? "" : "its handler looks into a result, or keeps bytes of its own";
    }
    template <class N>
    std::string check(const N&) const {
        return "its handler has a statement that is for chains";
    }
    template <AnyOf<Move, Unary, Binary, Select, Check, Fail, End, If, Loop, Break, Continue> N>
    std::string check(const N&) const {
        return {};
    }
    std::string check(const GetInput& n) const {
        return n.input == Input::block_length ? "" : "its handler asks for the place of a block";
    }
    template <AnyOf<Load, Varint> N>
    std::string check(const N& n) const {
        return unreadable(n.space);
    }
    std::string check(const CheckRange& n) const { return n.space == Space::result ? "" : unreadable(n.space); }
    template <AnyOf<IntOfBytes, Hash, FindByte, ParseDecimal> N>
    std::string check(const N& n) const {
        return unreadable(n.bytes.space);
    }
    std::string check(const Compare& n) const {
        const std::string wrong = unreadable(n.a.space);
        return wrong.empty() ? unreadable(n.b.space) : wrong;
    }
    std::string check(const Reply& n) const {
        for (const ReplyPart& part : n.parts) {
            if (part.format != Format::bytes || part.bytes.space == Space::result) continue;
            if (std::string wrong = unreadable(part.bytes.space); !wrong.empty()) return wrong;
        }
        return {};
    }
    std::string check(const Skip&) const { return "its handler skips what is behind a request"; }
    std::string check(const CallChain& n) const {
        if (n.closes) return "its handler closes the connection where a chain fails";
        for (const CallFile& file : n.files) {
            const Slice& name = file.name;
            if (name.space != Space::literal || !name.offset.is_imm || !name.length.is_imm)
                return "the request says which file is read";
        }
        for (const Slice& bytes : n.bytes_args)
            if (std::string wrong = unreadable(bytes.space); !wrong.empty()) return wrong;
        const Chain& chain = module_.chains[n.chain];
        if (returns_from(module_, chain, Space::literal)) return "chain '" + chain.name + "' returns a literal";
        return {};
    }

    const Module& module_;
    const Service& service_;
    const Body& body_;
    std::vector<const CallChain*> calls_;
};

std::vector<std::uint32_t> handlers_of(const Service& service) {
    std::vector<std::uint32_t> handlers;
    for (const std::int32_t program : {service.on_request_tcp, service.on_malformed, service.on_failure})
        if (program >= 0) handlers.push_back(static_cast<std::uint32_t>(program));
    return handlers;
}

std::vector<const CallChain*> calls_of(const Module& module, const std::vector<std::uint32_t>& programs) {
    std::vector<const CallChain*> calls;
    for (const std::uint32_t program : programs) collect(module.programs[program].body, calls);
    return calls;
}

bool wants_kernel(const Service& service) {
    return std::ranges::any_of(service.endpoints, [](const Endpoint& each) {
        return each.tcp && (each.via == "kernel" || each.via == "auto");
    });
}

}  // namespace

bool has_call_chain(const Module& module) {
    return std::ranges::any_of(module.chains, [](const Chain& chain) { return chain.mode == ChainMode::call; });
}

std::string kernel_obstacle(const Module& module, std::uint32_t number) {
    if (!has_call_chain(module)) return "the spec has no call chain, without which nothing runs inside the kernel";
    const Service& service = module.services[number];
    if (service.on_request_tcp < 0) return "it has no program for requests over tcp";
    const Framing& framing = service.tcp_framing;
    if (!framing.end.empty() || framing.bytes == 0 || framing.bytes > CIO_MAX_BLOCK)
        return "the size of its requests is not fixed";
    // What a handler has replied before it failed goes out in front of the reply of the one that says so.
    std::uint64_t longest = 0;
    for (const std::uint32_t program : handlers_of(service)) {
        const Handler handler(module, service, program);
        if (std::string wrong = handler.obstacle(); !wrong.empty()) return wrong;
        if (handler.calls() > 1) return "its handler calls several chains, one after the other";
        longest += handler.replies();
    }
    if (longest > CIO_MAX_BLOCK) return "its replies may be longer than 64 KiB";
    if (calls_of(module, handlers_of(service)).size() > kMostKernelSites) return "its handlers have too many calls";
    return {};
}

std::vector<std::uint32_t> kernel_services(const Module& module) {
    std::vector<std::uint32_t> services;
    std::set<std::uint32_t> programs;
    for (std::uint32_t i = 0; i < module.services.size() && services.size() < kMostKernelServices; i++) {
        if (!wants_kernel(module.services[i]) || !kernel_obstacle(module, i).empty()) continue;
        std::set<std::uint32_t> with = programs;
        for (const std::uint32_t program : handlers_of(module.services[i])) with.insert(program);
        if (calls_of(module, {with.begin(), with.end()}).size() > kMostKernelSites) continue;
        programs = std::move(with);
        services.push_back(i);
    }
    return services;
}

std::vector<std::uint32_t> kernel_handlers(const Module& module) {
    std::set<std::uint32_t> programs;
    for (const std::uint32_t service : kernel_services(module))
        for (const std::uint32_t program : handlers_of(module.services[service])) programs.insert(program);
    return {programs.begin(), programs.end()};
}

std::vector<const CallChain*> kernel_calls(const Module& module) { return calls_of(module, kernel_handlers(module)); }

bool calls_chain(const Module& module, std::int32_t program) {
    return program >= 0 && !calls_of(module, {static_cast<std::uint32_t>(program)}).empty();
}

std::uint64_t longest_kernel_reply(const Module& module) {
    std::uint64_t longest = 1;
    for (const std::uint32_t number : kernel_services(module)) {
        const Service& service = module.services[number];
        std::uint64_t bytes = 0;
        for (const std::uint32_t program : handlers_of(service)) bytes += Handler(module, service, program).replies();
        longest = std::max(longest, bytes);
    }
    return std::min<std::uint64_t>(longest, CIO_MAX_BLOCK);
}

std::uint32_t most_kernel_registers(const Module& module) {
    std::uint32_t most = 1;
    for (const std::uint32_t program : kernel_handlers(module))
        most = std::max<std::uint32_t>(most, module.programs[program].reg_count);
    return most;
}

}  // namespace chainio::ir
