// libbpf writes to stderr what its callers here say in their own errors.
#pragma once
#include <bpf/libbpf.h>

namespace chainio::backends {

class QuietLibbpf {
  public:
    QuietLibbpf() : before_(libbpf_set_print(nullptr)) {}
    QuietLibbpf(const QuietLibbpf&) = delete;
    QuietLibbpf& operator=(const QuietLibbpf&) = delete;
    ~QuietLibbpf() { libbpf_set_print(before_); }

  private:
    libbpf_print_fn_t before_;
};

}  // namespace chainio::backends
