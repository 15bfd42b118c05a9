// Where each register of a program lives in the emitted C, and which loop bodies become functions of their own.
#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "compiler/ir/ir.h"

namespace chainio::backends {

// A loop of more rounds than this is cut into pieces in BPF, a function each, so that the verifier follows fewer of
// them.
constexpr std::uint32_t kLongLoop = 512, kLoopPiece = 64;

// Slots from here on do not fit cio_io.vars, whose last eight are for the helper routines.
constexpr std::uint32_t kFirstSpill = 120;

// A register that is assigned once and used in one C function is a local, unless too many live at once; any other is a
// slot of cio_io.vars in BPF (and of a local struct in native code), so that the verifier never has to follow its value
// from one iteration to the next.
struct Place {
    bool is_slot = false;
    std::uint32_t slot = 0;
};

struct Placement {
    std::vector<Place> regs;
    std::uint32_t slots = 0;  // how many slots are used at most
    // The loops whose body is a C function; the others are nested too deeply for the kernel's limit of call frames.
    std::map<const ir::Loop*, std::uint32_t> functions;  // function number, counted from 1; 0 is the program
    std::vector<std::uint32_t> function_of;              // of each local register
    std::set<const ir::Loop*> halting;                   // of a handler: those in which it stops
};

Placement place(const ir::Program&);
// Of a handler, which is one C function: a slot has the number of its register.
Placement place_handler(const ir::Program&);

}  // namespace chainio::backends
