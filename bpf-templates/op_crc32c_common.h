/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#if !defined(CIO_BPF) && defined(__x86_64__) && !defined(CIO_CRC32C_BY_TABLE)
#define CIO_CRC32C_INSTRUCTION 1
/* Whether the processor has SSE4.2: asked once, when the object is loaded, since cpuid takes long under a hypervisor. */
static int cio_has_crc32c;
__attribute__((constructor)) static void cio_look_for_crc32c(void)
{
	u32 a = 1, b, c, d;
	__asm__("cpuid" : "+a"(a), "=b"(b), "=c"(c), "=d"(d));
	cio_has_crc32c = c >> 20 & 1;
}

__attribute__((target("sse4.2"))) static u64 cio_crc32c_words(u64 crc, const u8 *at, u64 words)
{
	for (; words != 0; words--, at += 8)
		crc = __builtin_ia32_crc32di(crc, cio_ld8(at));
	return crc;
}
#endif
