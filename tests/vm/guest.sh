#!/bin/sh
# Runs in a guest: guest.sh BUILD FOLDER quick|all|soak. FOLDER holds the artifacts that the host compiled; what each check says stands
# between `=== NAME` and `--- NAME EXITCODE SECONDS`.
build=$1 folder=$2 how=$3

check() {
    label=$1
    shift
    begun=$(cut -d. -f1 /proc/uptime)
    echo "=== $label"
    "$@" 2>&1
    echo "--- $label $? $(($(cut -d. -f1 /proc/uptime) - begun))"
}

check release uname -r
# Where programs are run afterwards, that is where they are loaded.
[ "$how" = quick ] && programs= || programs=--loops
check verify "$build/bin/chainio-verify" $programs "$folder"/*.bpf.o --object "$build/runtime/net/chainio_xdp.bpf.o"
check system "$build/bin/chainio-runtime" --check-system
# Whether the kernel's own types know the interface that chains inside the kernel are written for.
check kernel-engine grep -qaF io_uring_bpf_ops /sys/kernel/btf/vmlinux
[ "$how" != quick ] || exit 7 # a code of its own, which has to reach the caller
for artifact in "$folder"/*.bpf.o; do
    name=${artifact##*/}
    check "differential ${name%.bpf.o}" "$build/bin/chainio-diff" "$artifact" --blocks 10 --quiet --verified
done
# Two minutes and a half of emulation, so that in the short run one kernel does it: the one whose verifier refuses what older ones take.
case $how-$(uname -r) in
soak-* | *-6.12.*)
    mountpoint -q /sys/fs/bpf || mount -t bpf bpf /sys/fs/bpf
    check "shared interface" env CHAINIO_BUILD="$build" "${0%/*}/../e2e/xdp_shared.py" run "$folder/shared"
    ;;
esac
# Where the kernel has the kernel engine's interface, what that is for.
if grep -qaF io_uring_bpf_ops /sys/kernel/btf/vmlinux; then
    check engines "${0%/*}/engines_agree" "$build" "$folder/calls" "$how"
    [ "$how" = soak ] && chains=20000 || chains=800 # enough for every round of a trial, full as they may be
    check "random chains" "$build/bin/chainio-chains" run "$folder/random" "$CHAINIO_VM_EXT4" --seed "$(cat "$folder/random/seed")" --chains "$chains" \
        --engine user --engine kernel --engine auto-user --engine auto-kernel
    check "hard cases" "${0%/*}/hard_cases" "$build" "$folder/calls"
    check auto "${0%/*}/auto_tries" "$build" "$folder/calls"
    check sockets "${0%/*}/sockets" "$build" "$folder/calls"
fi
exit 7
