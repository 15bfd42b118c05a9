// Every function that the library interposes, one a line: the linker's version script and the tests read this list,
// too. RAW: what a system call does when libc does not have the function, or cannot be asked for it yet. LIBC: always
// there.
#pragma once

#define CHAINIO_NAMES(RAW, LIBC)                        \
    RAW(open, open_raw)                                 \
    RAW(open64, open_raw)                               \
    RAW(__open, open_raw)                               \
    RAW(__open64, open_raw)                             \
    RAW(__open_2, open_raw)                             \
    RAW(__open64_2, open_raw)                           \
    RAW(openat, call<SYS_openat>)                       \
    RAW(openat64, call<SYS_openat>)                     \
    RAW(openat2, call<SYS_openat2>)                     \
    RAW(__openat_2, call<SYS_openat>)                   \
    RAW(__openat64_2, call<SYS_openat>)                 \
    RAW(creat, creat_raw)                               \
    RAW(creat64, creat_raw)                             \
    RAW(read, call<SYS_read>)                           \
    RAW(__read, call<SYS_read>)                         \
    RAW(__read_chk, call<SYS_read>)                     \
    RAW(pread, call<SYS_pread64>)                       \
    RAW(pread64, call<SYS_pread64>)                     \
    RAW(__pread64, call<SYS_pread64>)                   \
    RAW(__pread_chk, call<SYS_pread64>)                 \
    RAW(__pread64_chk, call<SYS_pread64>)               \
    RAW(readv, call<SYS_readv>)                         \
    RAW(preadv, call<SYS_preadv>)                       \
    RAW(preadv64, call<SYS_preadv>)                     \
    RAW(preadv2, preadv2_raw)                           \
    RAW(preadv64v2, preadv2_raw)                        \
    RAW(sendfile, call<SYS_sendfile>)                   \
    RAW(sendfile64, call<SYS_sendfile>)                 \
    RAW(splice, call<SYS_splice>)                       \
    RAW(copy_file_range, call<SYS_copy_file_range>)     \
    RAW(posix_fadvise, fadvise_raw)                     \
    RAW(posix_fadvise64, fadvise_raw)                   \
    RAW(mmap, call<SYS_mmap>)                           \
    RAW(mmap64, call<SYS_mmap>)                         \
    RAW(unlink, unlink_raw)                             \
    RAW(unlinkat, call<SYS_unlinkat>)                   \
    LIBC(remove)                                        \
    LIBC(umount)                                        \
    LIBC(umount2)                                       \
    RAW(rename, rename_raw)                             \
    RAW(renameat, call<SYS_renameat>)                   \
    RAW(renameat2, call<SYS_renameat2>)                 \
    RAW(close, call<SYS_close>)                         \
    RAW(__close, call<SYS_close>)                       \
    RAW(close_range, call<SYS_close_range>)             \
    RAW(closefrom, closefrom_raw)                       \
    RAW(dup, call<SYS_dup>)                             \
    RAW(dup2, dup2_raw)                                 \
    RAW(__dup2, dup2_raw)                               \
    RAW(dup3, call<SYS_dup3>)                           \
    RAW(fcntl, call<SYS_fcntl>)                         \
    RAW(fcntl64, call<SYS_fcntl>)                       \
    RAW(__fcntl, call<SYS_fcntl>)                       \
    RAW(bind, call<SYS_bind>)                           \
    RAW(listen, call<SYS_listen>)                       \
    RAW(accept, call<SYS_accept>)                       \
    RAW(accept4, call<SYS_accept4>)                     \
    RAW(connect, call<SYS_connect>)                     \
    RAW(__connect, call<SYS_connect>)                   \
    RAW(recv, call<SYS_recvfrom>)                       \
    RAW(__recv_chk, call<SYS_recvfrom>)                 \
    RAW(recvfrom, call<SYS_recvfrom>)                   \
    RAW(__recvfrom_chk, call<SYS_recvfrom>)             \
    RAW(recvmsg, call<SYS_recvmsg>)                     \
    RAW(recvmmsg, call<SYS_recvmmsg>)                   \
    RAW(epoll_ctl, call<SYS_epoll_ctl>)                 \
    LIBC(epoll_wait)                                    \
    LIBC(epoll_pwait)                                   \
    RAW(epoll_pwait2, epoll_pwait2_raw)                 \
    LIBC(poll)                                          \
    LIBC(__poll)                                        \
    LIBC(__poll_chk)                                    \
    LIBC(ppoll)                                         \
    LIBC(__ppoll_chk)                                   \
    LIBC(select)                                        \
    LIBC(__select)                                      \
    LIBC(pselect)                                       \
    LIBC(pthread_cancel)                                \
    LIBC(vfork)                                         \
    LIBC(__vfork)                                       \
    LIBC(clone)                                         \
    LIBC(__clone)                                       \
    RAW(execve, call<SYS_execve>)                       \
    LIBC(execv)                                         \
    LIBC(execvp)                                        \
    LIBC(execvpe)                                       \
    LIBC(fexecve)                                       \
    RAW(execveat, call<SYS_execveat>)                   \
    LIBC(posix_spawn)                                   \
    LIBC(posix_spawnp)                                  \
    RAW(pidfd_spawn, lacking)                           \
    RAW(pidfd_spawnp, lacking)                          \
    RAW(posix_spawn_file_actions_addchdir_np, lacking)  \
    RAW(posix_spawn_file_actions_addfchdir_np, lacking) \
    LIBC(system)                                        \
    LIBC(popen)                                         \
    RAW(_exit, call<SYS_exit_group>)                    \
    RAW(_Exit, call<SYS_exit_group>)                    \
    RAW(prctl, call<SYS_prctl>)                         \
    RAW(io_setup, raw<SYS_io_setup>)                    \
    RAW(io_uring_queue_init, lacking_minus)             \
    RAW(io_uring_queue_init_params, lacking_minus)      \
    RAW(io_uring_queue_init_mem, lacking_minus)         \
    RAW(io_uring_setup, raw<SYS_io_uring_setup>)        \
    RAW(aio_read, lacking_errno)                        \
    RAW(aio_read64, lacking_errno)                      \
    RAW(lio_listio, lacking_errno)                      \
    RAW(lio_listio64, lacking_errno)                    \
    LIBC(sigaction)                                     \
    LIBC(__sigaction)                                   \
    LIBC(syscall)                                       \
    LIBC(fopen)                                         \
    LIBC(fopen64)                                       \
    LIBC(freopen)                                       \
    LIBC(freopen64)                                     \
    LIBC(fclose)                                        \
    LIBC(fread)                                         \
    LIBC(fread_unlocked)                                \
    LIBC(__fread_chk)                                   \
    LIBC(__fread_unlocked_chk)                          \
    LIBC(fgets)                                         \
    LIBC(fgets_unlocked)                                \
    LIBC(__fgets_chk)                                   \
    LIBC(__fgets_unlocked_chk)                          \
    LIBC(getline)                                       \
    LIBC(getdelim)                                      \
    LIBC(__getdelim)                                    \
    LIBC(fgetc)                                         \
    LIBC(getc)                                          \
    LIBC(_IO_getc)                                      \
    LIBC(fgetc_unlocked)                                \
    LIBC(getc_unlocked)                                 \
    LIBC(getchar)                                       \
    LIBC(getchar_unlocked)                              \
    LIBC(__uflow)                                       \
    LIBC(lockf)                                         \
    LIBC(lockf64)                                       \
    LIBC(fseek)                                         \
    LIBC(fseeko)                                        \
    LIBC(fseeko64)                                      \
    LIBC(fsetpos)                                       \
    LIBC(fsetpos64)

// These have no next one that the library would ask for by name: the linker's script reads them as it reads those
// above.
#define CHAINIO_NAMES_WITHOUT_NEXT(NAME) \
    NAME(dlsym)                          \
    NAME(execl)                          \
    NAME(execle)                         \
    NAME(execlp)
