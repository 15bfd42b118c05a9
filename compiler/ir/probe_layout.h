// Where the parts of a probe's record are (struct cio_probe_record in bpf-templates/chainio_probe.h): the program that
// writes it and the reader agree through this.
#pragma once
#include <cstdint>
#include <vector>

#include "bpf-templates/chainio_probe.h"
#include "compiler/ir/ir.h"

namespace chainio::ir {

struct ProbeLayout {
    std::vector<std::uint32_t> text_at;  // one an argument: bytes from the record's begin; 0 for integers
    std::uint32_t bytes = 0;             // of the whole record, a multiple of 8
};

inline ProbeLayout layout_of(const Probe& probe) {
    ProbeLayout layout;
    auto at = static_cast<std::uint32_t>(sizeof(cio_probe_record) + 8 * probe.args.size());
    for (const ProbeArg& arg : probe.args) {
        layout.text_at.push_back(arg.cstr ? at : 0);
        if (arg.cstr) at += arg.max + 1;
    }
    layout.bytes = (at + 7) / 8 * 8;
    return layout;
}

}  // namespace chainio::ir
