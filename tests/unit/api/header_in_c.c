/* The header must be plain C, and the layouts that programs are built with must not change. */
#include <chainio.h>

_Static_assert(sizeof(struct chainio_arg) == 24, "chainio_arg is part of the ABI");
_Static_assert(sizeof(struct chainio_completion) == 64, "chainio_completion is part of the ABI");
_Static_assert(offsetof(struct chainio_completion, bytes) == 32, "chainio_completion is part of the ABI");
_Static_assert(sizeof(struct chainio_options) >= 32, "chainio_options only grows");

int chainio_header_outcomes(void);
int chainio_header_outcomes(void) { return CHAINIO_OK + CHAINIO_UNSUPPORTED + CHAINIO_USER; }
