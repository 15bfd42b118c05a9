/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#define CIO_XXH_1 0x9e3779b185ebca87ull
#define CIO_XXH_2 0xc2b2ae3d27d4eb4full
#define CIO_XXH_3 0x165667b19e3779f9ull
#define CIO_XXH_4 0x85ebca77c2b2ae63ull
#define CIO_XXH_5 0x27d4eb2f165667c5ull
CIO_INLINE u64 cio_rotl(u64 x, u32 n) { return x << n | x >> (64 - n); }
CIO_INLINE u64 cio_xxh_round(u64 lane, u64 x) { return cio_rotl(lane + x * CIO_XXH_2, 31) * CIO_XXH_1; }
