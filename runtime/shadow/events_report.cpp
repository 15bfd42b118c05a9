// What the report says of events: notes with how often there was reason for them, and what was opened.
#include <fcntl.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "compiler/diag/utf8.h"
#include "runtime/shadow/events.h"

namespace chainio::shadow {
namespace {

constexpr std::uint64_t kLeastUnserved = 8;  // reads; a thread's first are not served, however it reads
constexpr std::size_t kMostCounts = 256, kMostExplained = 4096;  // kinds of notes and of explained things

const char* note_text(shim::Note note) {
    switch (note) {
        case shim::Note::io_uring:
        case shim::Note::aio: break;  // ProcessRings counts them, with those that only /proc shows
        case shim::Note::static_program: return "a static program was started, which runs plain";
        case shim::Note::narrow_program: return "a 32-bit program was started, which runs plain";
        case shim::Note::foreign_program: return "a program for another kind of machine was started, which runs plain";
        case shim::Note::other_library:
            return "a program of another C library than glibc was started, which runs plain";
        case shim::Note::other_user:
            return "a program was started as another user than whose the run is, and runs plain: the run's folder is "
                   "its user's alone; start chainio as that user";
        case shim::Note::not_judged:
            return "whether a program that was started is static is not known: no process could be made to look at it, "
                   "or its path begins in a folder that posix_spawn was to change to first";
        case shim::Note::kept:
            return "the space of a file that was deleted was not free at once: ChainIO was reading it, or slow to "
                   "close it";
        case shim::Note::descriptors: return "descriptors above the table's size were opened and not looked at";
        case shim::Note::sandbox:
            return "a process restricted its own system calls (seccomp, or user dispatch) and went on plain from there";
        case shim::Note::not_rewritten: return "a program's own system calls are not seen";
        case shim::Note::filtered:
            return "the kernel reads ahead in a process's files, though their class says `no_read_ahead`: it may "
                   "make only some system calls (seccomp)";
        case shim::Note::posix_aio:
            return "a process reads a matched file by POSIX AIO (`aio_read`): reads by libc's own threads are not seen";
        case shim::Note::mapped: return "a matched file is mapped: reads through the mapping are not seen";
    }
    return nullptr;
}

}  // namespace

void Events::on_note(const Message& message) {
    const auto note = static_cast<shim::Note>(message.event.source);
    if (note == shim::Note::io_uring) return rings_.told(message.event.process, ProcessRings::uring);
    if (note == shim::Note::aio) return rings_.told(message.event.process, ProcessRings::aio);
    const char* text = note_text(note);
    if (text == nullptr) return count("a note that nobody knows was posted");
    std::string line = text;
    if (!message.payload.empty()) line += " ('" + diag::escaped(text_of(message)) + "')";
    count(line);
}

void Events::count(const std::string& what) {
    const auto found = counts_.find(what);
    if (found != counts_.end()) {
        found->second++;
    } else if (counts_.size() < kMostCounts) {
        counts_[what] = 1;
    } else {
        not_counted_++;
    }
}

// A link's own name decides, and the kernel's name of what it leads to is what is told.
bool Events::is_by_another_name(const Message& message) const {
    const std::string name(text_of(message));
    return name.starts_with('/') && std::ranges::any_of(parts_.plan.classes, [&](std::uint32_t file_class) {
               return parts_.files.matches(file_class, name.c_str());
           });
}

const char* Events::why_passed(const Message& message) const {
    switch (static_cast<shim::Passed>(message.event.offset)) {
        case shim::Passed::no_file: return "it is a folder, a pipe or a device, and a class is of files";
        case shim::Passed::place: return "it is opened as a place (O_PATH) that nobody reads from";
        case shim::Passed::unnamed: return "it is a file without a name (O_TMPFILE)";
        case shim::Passed::inherited: return "it is inherited, and no class matches";
        case shim::Passed::unmatched: break;
    }
    return is_by_another_name(message) ? "it is opened by another name, as a link's, that no class matches"
                                       : "no class matches";
}

void Events::explain(const Message& message, const char* why) {
    const bool matched = message.event.kind == shim::EventKind::opened;
    std::string by, reason = why == nullptr ? "" : why;
    if (matched) {
        const ir::FileClass& files = parts_.spec.module().files[parts_.plan.classes[message.event.source]];
        by = files.name;
        const bool only_writes = (message.event.offset & O_ACCMODE) == O_WRONLY;
        if (only_writes) {
            reason = "it is opened for writing only";
        } else if ((message.event.offset & O_DIRECT) != 0) {
            reason = files.immutable
                         ? "it is opened with O_DIRECT: what is fetched goes into memory that its reads are served from"
                         : "it is opened with O_DIRECT and its class is not immutable: it is left alone";
        }
    } else if (message.event.source != 0) {
        by = parts_.spec.module().sockets[parts_.plan.sockets[message.event.source - 1U]].name;
    } else {
        reason = why_passed(message);
    }
    const std::pair key{diag::escaped(text_of(message)), by + "\n" + reason};
    const auto found = explained_.find(key);
    if (found != explained_.end()) {
        found->second.times++;
    } else if (explained_.size() < kMostExplained) {
        explained_[key] = {key.first, by, reason, 1};
    } else {
        not_explained_++;
    }
}

void Events::add_failing(std::vector<std::string>& notes) const {
    const ir::Module& module = parts_.spec.module();
    for (std::uint32_t i = 0; i < parts_.plan.chains.size(); i++) {
        const shim::ChainStats& stats = parts_.region.stats.chains[i];
        std::string note = outcomes_.note(i, module.chains[parts_.plan.chains[i].chain].name, stats.events,
                                          stats.failed, module.reasons);
        if (!note.empty()) notes.push_back(std::move(note));
    }
}

// By what call a program has read is not told, nor when: what is in memory as the server hears of a read may have come
// while it was under way. Of a program that is served at all some reads come before their bytes have.
void Events::add_unserved(std::vector<std::string>& notes) const {
    for (std::uint32_t i = 0; i < unserved_.size(); i++) {
        if (unserved_[i] < kLeastUnserved || parts_.region.stats.classes[i].served != 0) continue;
        notes.push_back(std::to_string(unserved_[i]) + " reads of class '" +
                        parts_.spec.module().files[parts_.plan.classes[i]].name +
                        "' with O_DIRECT went to the disk for what was in memory soon after, and none was served: "
                        "only `pread` is, not `read` or `preadv`, of a descriptor that is for reading only, in a "
                        "process without an io_uring, and of what is there, or on its way, as it begins");
    }
}

std::vector<std::string> Events::notes() const {
    std::vector<std::string> notes = refusals_.notes();
    const auto times = [](std::uint64_t n) { return n == 1 ? std::string("once") : std::to_string(n) + " times"; };
    if (direct_ != 0)
        notes.push_back(
            "a file that was opened with O_DIRECT was left alone " + times(direct_) +
            ": what is fetched into the page cache does not reach its reads; declare the class `immutable` if its "
            "bytes never change");
    if (not_reached_ != 0)
        notes.push_back("a range was not fetched " + times(not_reached_) +
                        ": its file was opened with O_DIRECT, and nobody reads it through the page cache");
    if (const std::uint64_t untold = parts_.files.untold(); untold != 0)
        notes.push_back("what of a file is in memory the kernel tells only its owner and who may write to it (" +
                        times(untold) + "): it is fetched all the same, and no saving is counted");
    add_failing(notes);
    add_unserved(notes);
    if (gone_ != 0) notes.push_back("the bytes of a read could not be read again " + times(gone_));
    if (not_shown_ != 0)
        notes.push_back("chains were not shown an event that was left at the program's end (" + times(not_shown_) +
                        "): to show them all would have taken too long");
    if (const auto holders = rings_.holders(ProcessRings::uring); holders != 0)
        notes.push_back("a process has set up an io_uring: its operations on it are not seen (" + times(holders) + ")");
    if (const auto holders = rings_.holders(ProcessRings::aio); holders != 0)
        notes.push_back("a process has set up a kernel AIO context: its operations on it are not seen (" +
                        times(holders) + ")");
    for (const auto& [what, count] : counts_) notes.push_back(what + " (" + times(count) + ")");
    const auto too_many = [](std::size_t most) { return "there were more than " + std::to_string(most); };
    if (not_counted_ != 0)
        notes.push_back(too_many(kMostCounts) + " kinds of notes, and the others are left out (" + times(not_counted_) +
                        ")");
    if (not_explained_ != 0)
        notes.push_back(too_many(kMostExplained) + " things that were opened, and `explained` leaves out the others (" +
                        times(not_explained_) + ")");
    return notes;
}

std::vector<Explained> Events::explained() const {
    std::vector<Explained> all;
    for (const auto& [key, one] : explained_) all.push_back(one);
    return all;
}

}  // namespace chainio::shadow
