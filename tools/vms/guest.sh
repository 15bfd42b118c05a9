#!/bin/sh
# Runs in the guest as root, with the folder that it shares with the host and those whose files it keeps as its arguments: gives the
# disks their names, runs the command there and leaves its exit code.
run=$1 programs=$2 sources=$3
{
    # Of the root the guest keeps nothing that it has read: each start of a program would read it and its libraries anew.
    kept=/run/kept
    mkdir -p $kept/programs $kept/upper/lib/modules $kept/work
    mount -t 9p -o ro,trans=virtio,version=9p2000.L,access=any,cache=loose,msize=512000 kept0 $kept/programs
    ln -s "$(readlink -f "/lib/modules/$(uname -r)")" $kept/upper/lib/modules/
    mount -t overlay -o xino=off,lowerdir=$kept/programs,upperdir=$kept/upper,workdir=$kept/work kept "$programs"
    # Not above the folder that is shared, wherever the cache is.
    case $run in "$sources"/*) ;; *) mount -t 9p -o ro,trans=virtio,version=9p2000.L,access=any,cache=loose,msize=512000 kept1 "$sources" ;; esac
    modprobe nvme
    modprobe null_blk nr_devices=1 gb=1 irqmode=0 completion_nsec=0
    modprobe ext4
    modprobe virtio_net
    mkdir -p /tmp/chainio-ext4
    # Newer kernels name namespaces in the order in which they answer: only the number in sysfs says which is which.
    tries=0
    while [ $tries -lt 100 ]; do
        raw=$(grep -lx 1 /sys/block/nvme*/nsid 2>/dev/null | cut -d/ -f4)
        formatted=$(grep -lx 2 /sys/block/nvme*/nsid 2>/dev/null | cut -d/ -f4)
        [ ! -b "/dev/$raw" ] || [ ! -b "/dev/$formatted" ] || break
        sleep 0.1
        tries=$((tries + 1))
    done
    mount -t ext4 "/dev/$formatted" /tmp/chainio-ext4
} >"$run/disks" 2>&1 || { echo 125 >"$run/code"; exit; }
# The two NICs that are joined, by the addresses that they are booted with.
for end in 1 2; do
    nic=$(grep -lx "52:54:00:00:00:0$end" /sys/class/net/*/address | cut -d/ -f5)
    CHAINIO_VM_NICS="$CHAINIO_VM_NICS $nic"
done
export CHAINIO_VM_NICS CHAINIO_VM_NVME=/dev/$raw CHAINIO_VM_NULL_BLK=/dev/nullb0 CHAINIO_VM_EXT4=/tmp/chainio-ext4
export TMPDIR=/tmp HOME=/tmp PATH="$PATH:/usr/sbin:/sbin"
ulimit -l unlimited
sh "$run/command" >"$run/out" 2>"$run/err" </dev/null
code=$?
umount /tmp/chainio-ext4
echo $code >"$run/code"
sync
