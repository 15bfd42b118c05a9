#!/bin/sh
# Runs in a guest of tools/vm --icount: guest.sh BUILD SPEC full|quick ARGUMENTS… gives bench_inkernel its disks by name, and has requests of
# services counted. Booting takes longer than either in its short form, so that one guest does both.
set -e
build=$1 spec=$2 how=$3 here=${0%/*}
shift 3
mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null || [ -d /sys/kernel/tracing/events ]
# The null_blk that tools/vm gives keeps nothing; this one does, and answers as soon as it is asked as well.
modprobe configfs
[ -d /sys/kernel/config/nullb ] || mount -t configfs none /sys/kernel/config
disk=/sys/kernel/config/nullb/inkernel
mkdir $disk
for setting in memory_backed=1 size=64 blocksize=512 irqmode=0 power=1; do
    echo "${setting#*=}" >"$disk/${setting%=*}"
done
null=/dev/inkernel
[ -b $null ] || null=/dev/nullb$(cat $disk/index)
cp "$build/bin/bench_inkernel" "$spec" "$CHAINIO_VM_EXT4" # the host's file system is slow in the guest
cd "$CHAINIO_VM_EXT4"
mount -o remount,noinit_itable . # else tables of inodes are written in the background
"$here/services" "$build" "$PWD/${spec##*/}" "$null" "$how"
./bench_inkernel --spec "${spec##*/}" --path "NVMe=$CHAINIO_VM_NVME" --path "null_blk=$null" --path ext4=tree "$@"
