// Which of a spec's services over TCP can be answered inside the kernel (bpf-templates/chainio_serve.h), and what the
// compiler and the runtime have to agree on about them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ir/ir.h"

namespace chainio::ir {

// Limits of the program that answers, as in chainio_serve.h.
constexpr std::uint32_t kMostKernelServices = 8, kMostKernelSites = 64;

// What runs inside the kernel begins with chains that are called.
bool has_call_chain(const Module&);

// Empty when the service's requests over TCP can be answered inside the kernel; otherwise what cannot.
std::string kernel_obstacle(const Module&, std::uint32_t service);

// Of the services with an endpoint that is `via kernel` or `via auto`, those without an obstacle, at most as many as
// the program can have.
std::vector<std::uint32_t> kernel_services(const Module&);

// The programs of those services: each handler once, in ascending order.
std::vector<std::uint32_t> kernel_handlers(const Module&);

// The calls of those programs, in the order of programs and statements: a call's place is its number.
std::vector<const CallChain*> kernel_calls(const Module&);

// Whether a program (-1: there is none) calls a chain.
bool calls_chain(const Module&, std::int32_t program);

// The most bytes of one reply of those services, and the most registers of their programs.
std::uint64_t longest_kernel_reply(const Module&);
std::uint32_t most_kernel_registers(const Module&);

}  // namespace chainio::ir
