/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Probe programs. chainc writes one for each probe of the spec, in terms of the macros at the end of this text. They run inside the
 * probed process, so everything that is not needed is left to the reader; nothing here waits. */
struct task_struct;
static u64 (*const cio_pid_tgid)(void) = (void *)14;
static long (*const cio_map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*const cio_map_delete)(void *map, const void *key) = (void *)3;
static long (*const cio_read_user)(void *to, u32 size, const void *from) = (void *)112;
static long (*const cio_read_user_text)(void *to, u32 size, const void *from) = (void *)114;
static long (*const cio_ns_pid)(u64 device, u64 inode, void *out, u32 size) = (void *)120;
static void *(*const cio_ring_reserve)(void *ring, u64 size, u64 flags) = (void *)131;
static void (*const cio_ring_submit)(void *record, u64 flags) = (void *)132;
static void (*const cio_ring_discard)(void *record, u64 flags) = (void *)133;
static struct task_struct *(*const cio_current_task)(void) = (void *)158;
static u64 (*const cio_attach_cookie)(void *ctx) = (void *)174;

#define CIO_RING_QUIET 1
#define CIO_RING_WAKE 2
#define CIO_REGISTERS 21 /* of struct pt_regs on x86-64 */
#define CIO_TASK_COMPAT 2 /* TS_COMPAT: the task is in a 32-bit system call */

struct {
	int (*type)[27]; /* BPF_MAP_TYPE_RINGBUF */
	int (*max_entries)[CIO_PROBE_RING];
} cio_probe_ring CIO_SEC(".maps");

struct {
	int (*type)[2];
	int (*max_entries)[1];
	int (*map_flags)[1024];
	u32 *key;
	struct cio_probe_control *value;
} cio_probe_control_map CIO_SEC(".maps");

struct {
	int (*type)[2];
	int (*max_entries)[CIO_PROBE_SITES];
	u32 *key;
	struct cio_probe_site *value;
} cio_probe_site_map CIO_SEC(".maps");

/* The processes of the run, by their id in the first namespace. */
struct {
	int (*type)[1]; /* BPF_MAP_TYPE_HASH */
	int (*max_entries)[CIO_PROBE_TREE];
	u32 *key;
	u32 *value;
} cio_probe_tree_map CIO_SEC(".maps");

struct cio_probe_cpu {
	u64 registers[32];
	u64 value;
};

#define cio_probe_count(field) __sync_fetch_and_add(&(field), 1)

CIO_INLINE struct cio_probe_control *cio_probe_controls(void)
{
	u32 key = 0;
	return cio_map_lookup(&cio_probe_control_map, &key);
}

/* The controls, when the running process belongs to the run and the probe is wanted. */
CIO_INLINE struct cio_probe_control *cio_probe_wanted(u32 probe)
{
	u32 process = cio_pid_tgid() >> 32;
	struct cio_probe_control *control = cio_probe_controls();
	if (!control || control->off[probe] || !cio_map_lookup(&cio_probe_tree_map, &process))
		return 0;
	return control;
}

CIO_INLINE u32 cio_probe_process(struct cio_probe_control *control)
{
	struct {
		u32 thread, process;
	} ids = {};
	if (cio_ns_pid(control->device, control->inode, &ids, sizeof(ids)))
		return cio_pid_tgid() >> 32;
	return ids.process;
}

/* cpu->value = the argument; 0 when its memory cannot be read. */
CIO_GLOBAL int cio_probe_fetch(struct cio_probe_cpu *cpu, struct cio_probe_arg *arg)
{
	if (!cpu || !arg)
		return 0;
	u64 value = arg->value, size = arg->size;
	if (size < 1 || size > 8)
		return 0;
	if (arg->from != CIO_FROM_CONSTANT) {
		u64 base = cpu->registers[cio_mask(arg->reg, 31)];
		if (arg->from == CIO_FROM_MEMORY) {
			u64 bytes = 0;
			if (arg->index != CIO_NO_INDEX)
				base += cpu->registers[cio_mask(arg->index, 31)] << (arg->shift & 3);
			if (cio_read_user(&bytes, size, (void *)(base + value)))
				return 0;
			value = bytes;
		} else {
			value = base;
		}
	}
	u64 spare = (64 - 8 * size) & 63;
	value <<= spare;
	cpu->value = arg->is_signed ? (u64)((s64)value >> spare) : value >> spare;
	return 1;
}

/* Hands the record over. The exchange orders the record before the look at `asleep`, as the reader orders its own the other way. */
CIO_INLINE void cio_probe_submit(struct cio_probe_control *control, u32 probe, void *record)
{
	cio_probe_count(control->counts[probe].taken);
	u64 wake = __sync_lock_test_and_set(&control->asleep, 0);
	cio_ring_submit(record, wake ? CIO_RING_WAKE : CIO_RING_QUIET);
}

/* Puts the calling process into the tree; its children follow it. */
CIO_SEC("syscall") int cio_probe_join(void *ctx)
{
	u32 process = cio_pid_tgid() >> 32, one = 1;
	(void)ctx;
	return cio_map_update(&cio_probe_tree_map, &process, &one, 0) ? 1 : 0;
}

/* As much of the kernel's own structures as is looked at; libbpf finds where the running kernel has it. */
#define CIO_KERNEL __attribute__((preserve_access_index))
struct signal_struct {
	struct {
		int counter;
	} live;
} CIO_KERNEL;
struct thread_info {
	u32 status;
} CIO_KERNEL;
struct task_struct {
	struct thread_info thread_info;
	int tgid;
	struct signal_struct *signal;
} CIO_KERNEL;

CIO_SEC("tp_btf/sched_process_fork") int cio_probe_fork(u64 *ctx)
{
	struct task_struct *parent = (void *)ctx[0], *child = (void *)ctx[1];
	u32 from = parent->tgid, to = child->tgid, one = 1;
	if (from == to || !cio_map_lookup(&cio_probe_tree_map, &from))
		return 0;
	struct cio_probe_control *control = cio_probe_controls();
	if (cio_map_update(&cio_probe_tree_map, &to, &one, 0) && control)
		cio_probe_count(control->untracked);
	return 0;
}

CIO_SEC("tp_btf/sched_process_exit") int cio_probe_exit(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	u32 process = task->tgid;
	if (task->signal->live.counter == 0)
		cio_map_delete(&cio_probe_tree_map, &process);
	return 0;
}

#define CIO_PROBE_RECORD(n, bytes)                                                   \
	struct cio_probe_record *record = cio_ring_reserve(&cio_probe_ring, bytes, 0); \
	if (!record) {                                                               \
		cio_probe_count(control->counts[n].lost);                            \
		return 0;                                                            \
	}                                                                            \
	record->probe = n;                                                           \
	record->process = cio_probe_process(control);

#define CIO_PROBE_SITE(n, bytes)                                                     \
	CIO_SEC("uprobe") int cio_probe_##n(u64 *ctx)                                \
	{                                                                            \
		struct cio_probe_control *control = cio_probe_wanted(n);             \
		if (!control)                                                        \
			return 0;                                                    \
		u32 key = cio_attach_cookie(ctx);                                    \
		struct cio_probe_site *site = cio_map_lookup(&cio_probe_site_map, &key); \
		if (!site)                                                           \
			return 0;                                                    \
		struct cio_probe_cpu cpu = {};                                       \
		_Pragma("unroll") for (int i = 0; i < CIO_REGISTERS; i++)            \
			cpu.registers[i] = ctx[i];                                   \
		CIO_PROBE_RECORD(n, bytes)

/* The arguments of a system call are in rdi, rsi, rdx, r10, r8 and r9. The numbers of 32-bit ones mean other calls. */
#define CIO_PROBE_SYSCALL(n, bytes)                                                  \
	struct pt_regs;                                                              \
	CIO_SEC("tp_btf/sys_enter") int cio_probe_##n(u64 *ctx)                      \
	{                                                                            \
		struct cio_probe_control *control = cio_probe_controls();            \
		if (!control || ctx[1] != control->syscalls[n])                      \
			return 0;                                                    \
		if (cio_current_task()->thread_info.status & CIO_TASK_COMPAT)        \
			return 0;                                                    \
		control = cio_probe_wanted(n);                                       \
		if (!control)                                                        \
			return 0;                                                    \
		u64 *registers = (void *)ctx[0];                                     \
		struct {                                                             \
			u64 value;                                                   \
		} cpu;                                                               \
		u64 args[CIO_SYSCALL_ARGS] = {registers[14], registers[13], registers[12], \
					      registers[7],  registers[9],  registers[8]}; \
		CIO_PROBE_RECORD(n, bytes)

#define CIO_PROBE_AT_SITE(k)                             \
	if (!cio_probe_fetch(&cpu, &site->args[k]))      \
		goto unreadable;
#define CIO_PROBE_AT_SYSCALL(k) cpu.value = args[k];

/* `spare` bits of the value do not belong to the declared integer. */
#define CIO_PROBE_UNSIGNED(k, spare) record->values[k] = cpu.value << (spare) >> (spare);
#define CIO_PROBE_SIGNED(k, spare) record->values[k] = (u64)((s64)(cpu.value << (spare)) >> (spare));
#define CIO_PROBE_TEXT(k, at, max)                                                              \
	{                                                                                       \
		long got = cio_read_user_text((u8 *)record + (at), (max) + 1, (void *)cpu.value); \
		if (got <= 0)                                                                   \
			goto unreadable;                                                        \
		record->values[k] = got - 1;                                                    \
	}

#define CIO_PROBE_END(n)                                             \
		cio_probe_submit(control, n, record);                \
		return 0;                                            \
	unreadable:                                                  \
		cio_ring_discard(record, CIO_RING_QUIET);            \
		cio_probe_count(control->counts[n].unreadable);      \
		return 0;                                            \
	}
