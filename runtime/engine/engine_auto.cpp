// --engine=auto: both engines behind one, until a trial has decided between them (trial.h). Only one of them has chains
// under way at any time: those that come before the other's turn wait until the last of the round has ended.
#include <time.h>

#include <cstring>
#include <utility>

#include "runtime/engine/engine.h"

namespace chainio::engine {
namespace {

std::uint64_t thread_ns() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace

Engine::Spent::Spent(Engine& engine) : choice_(engine.choice_.get()) {
    if (choice_ != nullptr && choice_->trying) choice_->cpu_mark = thread_ns();
}

Engine::Spent::~Spent() {
    if (choice_ != nullptr && choice_->trying) choice_->cost.cpu_ns += thread_ns() - choice_->cpu_mark;
}

void Engine::choose(const std::vector<ClassRank>& ranks) {
    choice_ = std::make_unique<Choice>(*options_.trial, ranks);
    if (std::string obstacle = kernel_engine_obstacle(); !obstacle.empty())
        give_up(obstacle);
    else if (options_.trial->load_first)
        load_kernel();
    change_over();
}

// Makes the kernel engine beside the other. What stands in the way decides for the user engine.
void Engine::load_kernel() {
    auto loop = make_loop(choice_->ranks, choice_->fallbacks);
    if (!loop) return give_up(loop.error());
    for (std::uint32_t slot = 0; slot < files_.size(); slot++) {
        if (!files_[slot].used) continue;
        if (auto added = (*loop)->add_file(slot, files_[slot].opened); !added)
            return give_up("file '" + files_[slot].opened.path + "': " + added.error());
    }
    kernel_ = std::move(*loop);
}

// The user engine goes on, now or once what the kernel has under way has ended.
void Engine::give_up(const std::string& why) {
    if (choice_->trial.decided() && choice_->trial.side() == Side::user) return;
    choice_->trial.give_up(why);
    choice_->trying = false;
    choice_->open = choice_->due = true;
}

cio_io* Engine::io_of(std::uint32_t flight) const {
    if (inside_) return kernel_->io(flight);
    return reinterpret_cast<cio_io*>(io_memory_.base() + std::size_t{flight} * io_stride_);
}

// Before a chain is taken: whether the round has room for it.
void Engine::look_at_round() {
    Choice& choice = *choice_;
    if (!choice.due) {
        const std::uint64_t since = choice.busy_since != 0 ? now_ns() - choice.busy_since : 0;
        const std::uint64_t elapsed = choice.cost.elapsed_ns + since;
        choice.due =
            choice.trying ? choice.trial.full(choice.cost.chains, elapsed) : elapsed >= choice.trial.options().after_ns;
    }
    if (running_ == 0) change_over();
}

void Engine::count_started(std::uint64_t now) {
    choice_->cost.chains++;
    if (choice_->busy_since == 0) choice_->busy_since = now;
}

// A chain has ended; the time without any is nobody's.
void Engine::count_ended(std::uint64_t now) {
    if (choice_->busy_since == 0 || started() != 0) return;
    choice_->cost.elapsed_ns += now - choice_->busy_since;
    choice_->busy_since = 0;
}

void Engine::defer(std::uint32_t flight) {
    append(choice_->deferred, flight);
    choice_->deferred_count++;
}

// True: it had not begun, and will not.
bool Engine::drop_deferred(std::uint32_t flight) {
    if (choice_ == nullptr) return false;
    List& list = choice_->deferred;
    for (std::uint32_t at = list.head, before = kNoIndex; at != kNoIndex; before = at, at = flights_[at].link.next) {
        if (at != flight) continue;
        (before == kNoIndex ? list.head : flights_[before].link.next) = flights_[at].link.next;
        if (list.tail == at) list.tail = before;
        choice_->deferred_count--;
        return true;
    }
    return false;
}

// Ends the round once its last chain has ended, and begins the next one. True: with chains that have waited for it.
bool Engine::change_over() {
    Choice& choice = *choice_;
    if (!choice.due || started() != 0) return false;
    choice.due = false;
    if (choice.trying) {
        const std::uint64_t now = thread_ns();
        choice.cost.cpu_ns += now - choice.cpu_mark;
        choice.trial.add(choice.cost);
    } else if (!choice.trial.decided()) {
        if (kernel_ == nullptr) load_kernel();
        choice.trying = !choice.trial.decided();
        choice.due = false;  // giving up asks for a change, which is this one
    }
    choice.cost = {};
    choice.busy_since = 0;
    if (choice.trial.decided()) {
        choice.open = choice.trying = false;
        choice.retire = choice.trial.side() == Side::user && kernel_ != nullptr;
        if (choice.trial.side() == Side::kernel) note(std::exchange(choice.fallbacks, {}));
    }
    // Reads of cancelled chains, which nobody would look for.
    while (!inside_ && on_device_ > 0 && enter(on_device_)) {}
    inside_ = choice.trial.side() == Side::kernel;
    if (choice.trying) choice.cpu_mark = thread_ns();
    const bool waited = choice.deferred_count != 0;
    for (std::uint32_t index; (index = take_first(choice.deferred)) != kNoIndex;) {
        choice.deferred_count--;
        Flight& flight = flights_[index];
        if (cio_io* there = io_of(index); there != flight.io) {
            std::memcpy(there, flight.io, spec_->artifact().layout.total);
            flight.io = there;
        }
        start(index);
    }
    return waited;
}

void Engine::note(const metrics::Fallbacks& of_kernel) {
    for (const auto& [name, reason, count] : of_kernel.all()) fallbacks_.note(name, reason, count);
}

// The kernel engine's memory and program go when nothing of it is in anybody's hands any more.
void Engine::retire() {
    if (!choice_->retire || finished_.head != kNoIndex) return;
    choice_->retire = false;
    kernel_.reset();
}

std::expected<unsigned, std::string> Engine::reap_choosing(std::span<Completion> out, unsigned min) {
    const Spent spent(*this);
    unsigned count = 0;
    do {
        auto more = reap_here(out.subspan(count), min > count ? min - count : 0);
        if (!more) return count_or(count, more.error());
        count += *more;
    } while (change_over());
    return count;
}

}  // namespace chainio::engine
