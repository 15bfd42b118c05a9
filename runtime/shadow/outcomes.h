// How chains ended that did not end well, for the report. A page of another kind makes a chain fail, and is normal;
// where nearly all do, the chain is most likely wrong about what it reads, and nothing else would say so.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bpf-templates/chainio_step.h"
#include "runtime/spec/outcomes.h"

namespace chainio::shadow {

class Outcomes {
  public:
    Outcomes(std::size_t chains, std::size_t reasons)
        : by_chain_(chains, std::vector<std::uint64_t>(CIO_USER + reasons + 1)) {}

    // What native code has written may be any number: those that nobody named are one.
    void add(std::uint32_t chain, std::uint32_t outcome) {
        auto& counts = by_chain_[chain];
        counts[std::min<std::size_t>(outcome, counts.size() - 1)]++;
    }

    // Of so many runs of a chain, of which so many failed; empty where enough of them went well. Those that a program
    // made itself are among them, without their outcomes.
    std::string note(std::uint32_t chain, std::string_view name, std::uint64_t runs, std::uint64_t failed,
                     const std::vector<std::string>& reasons) const {
        if (failed == 0 || failed < runs - runs / kOneIn) return {};
        const auto& counts = by_chain_[chain];
        const auto most = std::ranges::max_element(counts);
        const auto outcome = static_cast<std::uint32_t>(most - counts.begin());
        const std::string which =
            outcome + 1 == counts.size() ? "outcomes without a name" : spec::outcome_name(outcome, reasons);
        const std::string where =
            runs == 1 ? "its only event" : std::to_string(failed) + " of " + std::to_string(runs) + " events";
        std::string text = "chain '" + std::string(name) + "' ";
        if (*most == failed) {
            text += "ended with " + which + " at " + where;
        } else {
            text += "failed at " + where;
            if (*most != 0) text += ", at " + std::to_string(*most) + " of them with " + which;
        }
        return text + "; `chainio test` shows where";
    }

  private:
    static constexpr std::uint64_t kOneIn = 16;  // that may go well among those that fail

    std::vector<std::vector<std::uint64_t>> by_chain_;  // by outcome
};

}  // namespace chainio::shadow
