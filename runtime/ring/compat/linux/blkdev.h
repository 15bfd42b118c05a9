/* liburing 2.9 includes <linux/blkdev.h>, which only kernel headers of Linux 6.13 and later have. This folder is
 * searched last
 * (-idirafter), so that the system's own header is used wherever there is one. */
#ifndef CHAINIO_COMPAT_LINUX_BLKDEV_H
#define CHAINIO_COMPAT_LINUX_BLKDEV_H

#include <linux/ioctl.h>

#ifndef BLOCK_URING_CMD_DISCARD
#define BLOCK_URING_CMD_DISCARD _IO(0x12, 0)
#endif

#endif
