#include "runtime/spec/outcomes.h"

#include <array>

#include "bpf-templates/chainio_step.h"

namespace chainio::spec {
namespace {

constexpr std::array<OutcomeInfo, 13> kOutcomes{{
    {CIO_OK, "ok", "the chain returned a result"},
    {CIO_MALFORMED, "malformed", "the bytes are not what the records say"},
    {CIO_NOT_FOUND, "not_found", "the chain looked and there is no such thing"},
    {CIO_OVERFLOW, "overflow", "a value or result does not fit where it must go"},
    {CIO_SHORT_READ, "short_read", "the file ends inside the block"},
    {CIO_IO_ERROR, "io_error", "the kernel could not read the block"},
    {CIO_HOP_LIMIT, "hop_limit", "the chain wanted more reads than its `hops` allows"},
    {CIO_NO_MEMORY, "no_memory", "no frame can hold the block"},
    {CIO_CANCELLED, "cancelled", "the chain was cancelled or its engine closed"},
    {CIO_NO_RESULT, "no_result", "the last step ended without a result"},
    {CIO_FANOUT, "fanout", "one step queued more than 16 reads"},
    {CIO_BAD_ARGUMENT, "bad_argument", "an argument does not fit its parameter"},
    {CIO_UNSUPPORTED, "unsupported", "this engine cannot run what the step asked for"},
}};

}  // namespace

std::span<const OutcomeInfo> outcomes() { return kOutcomes; }

std::string outcome_name(std::uint32_t outcome, const std::vector<std::string>& reasons) {
    if (outcome < kOutcomes.size()) return std::string(kOutcomes[outcome].name);
    if (outcome >= CIO_USER && outcome - CIO_USER < reasons.size()) return reasons[outcome - CIO_USER];
    return "outcome_" + std::to_string(outcome);
}

}  // namespace chainio::spec
