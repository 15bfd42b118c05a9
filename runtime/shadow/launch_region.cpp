#include "runtime/shadow/launch_region.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <type_traits>

namespace chainio::shadow {
namespace {

constexpr std::uint32_t kRegionBytes = static_cast<std::uint32_t>(shim::kRegionBytes);

class Writer {
  public:
    void put(std::uint32_t number) { out_.append(reinterpret_cast<const char*>(&number), sizeof number); }
    template <std::size_t Size>
    void put(const char (&text)[Size]) {
        const std::size_t length = ::strnlen(text, Size - 1);
        put(static_cast<std::uint32_t>(length));
        out_.append(text, length);
    }
    void put_bytes(std::string_view bytes) {
        put(static_cast<std::uint32_t>(bytes.size()));
        out_.append(bytes);
    }
    std::string take() { return std::move(out_); }

  private:
    std::string out_;
};

// Of zeroed memory only what is put is written.
class Reader {
  public:
    explicit Reader(std::string_view rest) : rest_(rest) {}
    std::uint32_t number() {
        std::uint32_t value = 0;
        if (rest_.size() < sizeof value) return fail();
        std::memcpy(&value, rest_.data(), sizeof value);
        rest_.remove_prefix(sizeof value);
        return value;
    }
    std::uint32_t at_most(std::uint32_t most) {
        const std::uint32_t value = number();
        return value <= most ? value : fail();
    }
    template <std::size_t Size>
    void text(char (&to)[Size]) {
        const std::uint32_t length = at_most(Size - 1);
        if (rest_.size() < length) return void(fail());
        std::ranges::copy(rest_.substr(0, length), to);
        rest_.remove_prefix(length);
    }
    std::string_view bytes() {
        const std::uint32_t length = number();
        if (rest_.size() < length) return fail(), std::string_view();
        const std::string_view taken = rest_.substr(0, length);
        rest_.remove_prefix(length);
        return taken;
    }
    bool whole() const { return good_ && rest_.empty(); }

  private:
    std::uint32_t fail() {
        good_ = false;
        rest_ = {};
        return 0;
    }
    std::string_view rest_;
    bool good_ = true;
};

}  // namespace

void put_names(const Names& names, shim::Stats& stats) {
    for (std::size_t i = 0; i < names.chain_count; i++)
        std::memcpy(stats.chains[i].name, names.chains[i], shim::kMaxName);
    for (std::size_t i = 0; i < names.class_count; i++)
        std::memcpy(stats.classes[i].name, names.classes[i], shim::kMaxName);
    stats.chain_count = names.chain_count;
    stats.class_count = names.class_count;
}

std::string packed(const Launch& launch) {
    const shim::Plan& plan = launch.plan;
    Writer out;
    for (const std::uint32_t number :
         {shim::kVersion, kRegionBytes, plan.exe_count, plan.class_count, plan.socket_count, launch.names.chain_count})
        out.put(number);
    for (std::uint32_t i = 0; i < plan.exe_count; i++) out.put(plan.exes[i]);
    for (std::uint32_t i = 0; i < plan.class_count; i++) {
        out.put(launch.class_posts[i]);
        out.put(plan.classes[i].flags);
        out.put(plan.classes[i].root);
        out.put(plan.classes[i].pattern);
        out.put(launch.names.classes[i]);
    }
    for (std::uint32_t i = 0; i < plan.socket_count; i++) {
        out.put(launch.socket_posts[i]);
        out.put(std::uint32_t{plan.sockets[i].port});
        out.put(std::uint32_t{plan.sockets[i].tcp});
        for (const std::uint32_t number :
             {plan.own[i].chain, plan.own[i].program, plan.own[i].target, plan.own[i].file_class})
            out.put(number);
        out.put(plan.own[i].index);
    }
    for (const std::uint32_t number : {plan.step.bytes, plan.step.prefetch_offset, plan.step.prefetch_count})
        out.put(number);
    for (std::uint32_t i = 0; i < launch.names.chain_count; i++) out.put(launch.names.chains[i]);
    out.put_bytes(launch.steps);
    return out.take();
}

bool launch_region(std::string_view launch, bool explain, shim::Region& region, std::string_view& steps) {
    Reader in(launch);
    if (in.number() != shim::kVersion || in.number() != kRegionBytes) return false;
    shim::Plan& plan = region.plan;
    plan.explain = explain ? 1 : 0;
    plan.exe_count = in.at_most(shim::kMaxExes);
    plan.class_count = in.at_most(shim::kMaxClasses);
    plan.socket_count = in.at_most(shim::kMaxSockets);
    const std::uint32_t chains = in.at_most(shim::kMaxChains);
    for (auto& exe : std::span(plan.exes).first(plan.exe_count)) in.text(exe);
    for (std::uint32_t i = 0; i < plan.class_count; i++) {
        region.class_posts[i] = in.number();
        plan.classes[i].flags = in.number();
        plan.classes[i].root = in.at_most(shim::kMaxPattern - 1);
        in.text(plan.classes[i].pattern);
        in.text(region.stats.classes[i].name);
    }
    for (std::uint32_t i = 0; i < plan.socket_count; i++) {
        region.socket_posts[i] = in.number();
        plan.sockets[i].port = static_cast<std::uint16_t>(in.at_most(UINT16_MAX));
        plan.sockets[i].tcp = static_cast<std::uint8_t>(in.at_most(1));
        plan.own[i].chain = in.at_most(chains);
        plan.own[i].program = in.number();
        plan.own[i].target = in.number();
        plan.own[i].file_class = in.number();
        in.text(plan.own[i].index);
    }
    for (std::uint32_t* number : {&plan.step.bytes, &plan.step.prefetch_offset, &plan.step.prefetch_count})
        *number = in.number();
    for (std::uint32_t i = 0; i < chains; i++) in.text(region.stats.chains[i].name);
    steps = in.bytes();
    region.stats.class_count = plan.class_count;
    region.stats.chain_count = chains;
    return in.whole();
}

}  // namespace chainio::shadow
