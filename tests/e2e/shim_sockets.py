#!/usr/bin/env python3
"""Sockets: which belong to a rule, what is peeked when they become readable, and what the program then receives all the same."""
import os
import pathlib
import socket
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))
import started  # noqa: E402
from netns import held_port  # noqa: E402
from shim import UNSEEN_CLOSE, Checks, Server, environment, summary  # noqa: E402

HEAD = """
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#define CHECK(x) do { if (!(x)) { fprintf(stderr, "%d: %s (errno %d)\\n", __LINE__, #x, errno); _exit(99); } } while (0)
ssize_t __recv_chk(int, void*, size_t, size_t, int); ssize_t __recvfrom_chk(int, void*, size_t, size_t, int, void*, socklen_t*);
int __poll_chk(struct pollfd*, nfds_t, int, size_t); int __ppoll_chk(struct pollfd*, nfds_t, const struct timespec*, const sigset_t*, size_t);
int __poll(struct pollfd*, unsigned long, int); int __select(int, fd_set*, fd_set*, fd_set*, struct timeval*);
int __connect(int, const struct sockaddr*, socklen_t); ssize_t __read_chk(int, void*, size_t, size_t);
static char b[8192]; static int port; static struct iovec v[2] = {{b, 3}, {b + 3, 100}}; static struct msghdr m = {.msg_iov = v, .msg_iovlen = 2};
static struct sockaddr_in at(int p) { return (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(p), .sin_addr = {htonl(INADDR_LOOPBACK)}}; }
/* A listening socket of port a[2], which the test holds for us as descriptor 0 unless we are to bind it ourselves. */
static int own_listener(int type) {
    int s = socket(AF_INET, type, 0), one = 1; struct sockaddr_in x = at(port);
    CHECK(setsockopt(s, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one) == 0);
    CHECK(bind(s, (void*)&x, sizeof x) == 0);
    CHECK(type != SOCK_STREAM || listen(s, 9) == 0);
    return s;
}
static int client(const char* text) {
    int s = socket(AF_INET, SOCK_STREAM, 0); struct sockaddr_in x = at(port);
    CHECK(syscall(SYS_connect, s, &x, sizeof x) == 0 && write(s, text, strlen(text)) == strlen(text));
    return s;
}
static int peer, listener;
static int taken(const char* text) { listener = own_listener(SOCK_STREAM); peer = client(text); int s = accept(listener, 0, 0); CHECK(s >= 0); return s; }
static int datagram(const char* text) {
    int s = own_listener(SOCK_DGRAM), c = socket(AF_INET, SOCK_DGRAM, 0); struct sockaddr_in x = at(port);
    CHECK(sendto(c, text, strlen(text), 0, (void*)&x, sizeof x) == strlen(text)); return s;
}
/* Waits until so many bytes can be received, which a busy kernel hands on later than they were sent. */
static void came(int s, int bytes) { for (int there = 0; there < bytes; usleep(100)) CHECK(ioctl(s, FIONREAD, &there) == 0); }
static void failed(int s) { struct pollfd p = {s, 0, 0}; CHECK(syscall(SYS_ppoll, &p, 1, 0, 0, 8) == 1 && p.revents == POLLERR); }
/* Ends the connection so that the other end has an error, and waits for that. */
static void reset(int end, int s) {
    CHECK(setsockopt(end, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger)) == 0 && close(end) == 0);
    struct pollfd p = {s, 0, 0}; CHECK(syscall(SYS_ppoll, &p, 1, 0, 0, 8) == 1 && p.revents & POLLERR);
}
/* What nobody matches is readable, and comes out of the epoll as what the data says. */
static void pipe_beside(int e, unsigned long data) {
    int p[2]; struct epoll_event y = {EPOLLIN, {.u64 = data}};
    CHECK(pipe(p) == 0 && write(p[1], "x", 1) == 1 && epoll_ctl(e, EPOLL_CTL_ADD, p[0], &y) == 0);
}
static int pending(int s) { int error = 0; socklen_t n = sizeof error; CHECK(getsockopt(s, SOL_SOCKET, SO_ERROR, &error, &n) == 0); return error; }
/* The last bytes before memory that nobody may touch. */
static char* edge(int bytes) { char* m = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); CHECK(munmap(m + 4096, 4096) == 0); return m + 4096 - bytes; }
static void got(const char* text, ssize_t n) { CHECK(n == strlen(text) && memcmp(b, text, n) == 0); }
static int watch(int s, unsigned how, unsigned long data) {
    int e = epoll_create1(0); struct epoll_event x = {how, {.u64 = data}}; CHECK(epoll_ctl(e, EPOLL_CTL_ADD, s, &x) == 0); return e;
}
static struct epoll_event x[8]; static struct timespec second = {9, 0};
""" + UNSEEN_CLOSE + """
int main(int n, char** a) { port = atoi(a[2]); int s, e;
switch (atoi(a[1])) {
"""


def ready(text):
    return ("ready", 0, text)


HELLO, HELLO_ONE = [ready("hello")], [ready("one")]
CASES = [(what, f"s = taken(\"hello\"); {body} got(\"hello\", read(s, b, 99)); close(s);", HELLO) for what, body in (
    ("read alone", ""),
    ("epoll_wait", "e = watch(s, EPOLLIN, s); CHECK(epoll_wait(e, x, 8, 9000) == 1 && x[0].data.u64 == s);"),
    ("epoll_pwait", "e = watch(s, EPOLLIN, 0x1234567890abcdefUL); CHECK(epoll_pwait(e, x, 8, 9000, 0) == 1 && x[0].data.u64 == 0x1234567890abcdefUL);"),
    ("epoll_pwait2", "e = watch(s, EPOLLIN | EPOLLET, 0); CHECK(epoll_pwait2(e, x, 8, &second, 0) == 1);"),
    ("epoll, changed", "e = watch(s, EPOLLOUT, 1); struct epoll_event y = {EPOLLIN, {.u64 = 2}}; CHECK(epoll_ctl(e, EPOLL_CTL_MOD, s, &y) == 0);"
     "CHECK(epoll_wait(e, x, 8, 9000) == 1 && x[0].data.u64 == 2);"),
    ("epoll twice", "e = watch(s, EPOLLIN, 7); CHECK(epoll_wait(e, x, 8, 9000) == 1); CHECK(epoll_wait(e, x, 8, 9000) == 1);"),
    ("poll", "struct pollfd p[2] = {{-1, POLLIN}, {s, POLLIN}}; CHECK(poll(p, 2, 9000) == 1);"),
    ("__poll", "struct pollfd p = {s, POLLIN}; CHECK(__poll(&p, 1, 9000) == 1);"),
    ("__poll_chk", "struct pollfd p = {s, POLLIN}; CHECK(__poll_chk(&p, 1, 9000, sizeof p) == 1);"),
    ("ppoll", "struct pollfd p = {s, POLLIN}; CHECK(ppoll(&p, 1, &second, 0) == 1);"),
    ("__ppoll_chk", "struct pollfd p = {s, POLLIN}; CHECK(__ppoll_chk(&p, 1, &second, 0, sizeof p) == 1);"),
    ("select", "fd_set r; FD_ZERO(&r); FD_SET(s, &r); struct timeval t = {9, 0}; CHECK(select(s + 1, &r, 0, 0, &t) == 1 && FD_ISSET(s, &r));"),
    ("__select", "fd_set r; FD_ZERO(&r); FD_SET(s, &r); CHECK(__select(s + 1, &r, 0, 0, 0) == 1);"),
    ("pselect", "fd_set r; FD_ZERO(&r); FD_SET(s, &r); CHECK(pselect(s + 1, &r, 0, 0, &second, 0) == 1);"),
    ("a look of its own", "got(\"hello\", recv(s, b, 99, MSG_PEEK));"),
    ("a copy of the descriptor", "s = dup(s);"))]
CASES += [(what, f"s = taken(\"hello\"); {body}; close(s);", HELLO) for what, body in (
    ("recv", "got(\"hello\", recv(s, b, 99, 0))"), ("__recv_chk", "got(\"hello\", __recv_chk(s, b, 99, sizeof b, 0))"),
    ("recvfrom", "got(\"hello\", recvfrom(s, b, 99, 0, 0, 0))"), ("__recvfrom_chk", "got(\"hello\", __recvfrom_chk(s, b, 99, sizeof b, 0, 0, 0))"),
    ("syscall(recvfrom)", "got(\"hello\", syscall(SYS_recvfrom, s, b, 99, 0, 0, 0))"), ("__read_chk", "got(\"hello\", __read_chk(s, b, 99, sizeof b))"))]
CASES += [(what, f"s = taken(\"hello\"); {body}; close(s);", [ready("hel")]) for what, body in (
    ("readv: the first buffer", "got(\"hello\", readv(s, v, 2))"), ("recvmsg: the first buffer", "got(\"hello\", recvmsg(s, &m, 0))"))]
# The kernel looks at vectors before it writes, be it over these themselves.
CASES += [(what, f"s = taken(\"hello\"); {body} close(s);", HELLO) for what, body in (
    ("readv over its list", "struct iovec w = {&w, sizeof w}; CHECK(readv(s, &w, 1) == 5 && memcmp(&w, \"hello\", 5) == 0);"),
    ("recvmsg over its list", "struct iovec w = {&w, sizeof w}; struct msghdr q = {.msg_iov = &w, .msg_iovlen = 1}; CHECK(recvmsg(s, &q, 0) == 5 && memcmp(&w, \"hello\", 5) == 0);"),
    ("recvmsg over its header", "struct msghdr q = {.msg_iovlen = 1}; struct iovec w = {&q.msg_iov, 8}; q.msg_iov = &w; CHECK(recvmsg(s, &q, 0) == 5 && memcmp(&q.msg_iov, \"hello\", 5) == 0);"),
    ("vectors that nobody can read", "CHECK(readv(s, (void*)8, 1) == -1 && errno == EFAULT); CHECK(readv(s, (void*)edge(8), 1) == -1 && errno == EFAULT);"
     "CHECK(recvmsg(s, (void*)8, 0) == -1 && errno == EFAULT); CHECK(recvmsg(s, (void*)edge(40), 0) == -1 && errno == EFAULT); struct msghdr q = {.msg_iov = (void*)edge(8), .msg_iovlen = 1};"
     "CHECK(recvmsg(s, &q, 0) == -1 && errno == EFAULT); got(\"hello\", read(s, b, 99));"))]
CASES += [
    ("accept4", "listener = own_listener(SOCK_STREAM); peer = client(\"hi\"); s = accept4(listener, 0, 0, SOCK_CLOEXEC); got(\"hi\", read(s, b, 9));"
     "CHECK(fcntl(s, F_GETFD) == FD_CLOEXEC);", [ready("hi")]),
    ("syscall(accept4)", "listener = own_listener(SOCK_STREAM); peer = client(\"hi\"); s = syscall(SYS_accept4, listener, 0, 0, 0); got(\"hi\", read(s, b, 9));", [ready("hi")]),
    ("two requests", "s = taken(\"one\"); e = watch(s, EPOLLIN, 5); CHECK(epoll_wait(e, x, 8, 9000) == 1); got(\"one\", read(s, b, 9));"
     "CHECK(write(peer, \"two\", 3) == 3); CHECK(epoll_wait(e, x, 8, 9000) == 1); got(\"two\", read(s, b, 9));", [ready("one"), ready("two")]),
    ("many sockets in one wait", "s = taken(\"a\"); came(s, 1); e = watch(s, EPOLLIN, 0); for (int i = 1; i < 8; ++i) { char t[2] = {'a' + i}; peer = client(t); s = accept(listener, 0, 0); came(s, 1);"
     "struct epoll_event y = {EPOLLIN, {.u64 = i}}; CHECK(epoll_ctl(e, EPOLL_CTL_ADD, s, &y) == 0); }"
     "CHECK(epoll_wait(e, x, 8, 9000) == 8);", [ready(each) for each in "bcdefgha"]),  # the program comes to the first at once
    ("a closed socket's number used again", "s = taken(\"one\"); e = watch(s, EPOLLIN, 5); close(s); int p[2]; CHECK(pipe(p) == 0);"
     "CHECK(write(p[1], \"x\", 1) == 1); struct epoll_event y = {EPOLLIN, {.u64 = 5}}; CHECK(epoll_ctl(e, EPOLL_CTL_ADD, p[0], &y) == 0);"
     "CHECK(epoll_wait(e, x, 8, 9000) == 1); CHECK(read(p[0], b, 9) == 1);", []),
    ("a number that comes again behind a close that nobody saw", "s = taken(\"one\"); got(\"one\", read(s, b, 9)); int other = socket(AF_INET, SOCK_STREAM, 0), c = socket(AF_INET, SOCK_STREAM, 0);"
     "struct sockaddr_in y = at(0); socklen_t n = sizeof y; CHECK(bind(other, (void*)&y, n) == 0 && listen(other, 9) == 0 && getsockname(other, (void*)&y, &n) == 0);"
     "CHECK(connect(c, (void*)&y, n) == 0 && write(c, \"two\", 3) == 3); unseen_close(s); CHECK(accept(other, 0, 0) == s); got(\"two\", read(s, b, 9));", HELLO_ONE),
    ("the end of a connection", "s = taken(\"\"); close(peer); e = watch(s, EPOLLIN, 5); CHECK(epoll_wait(e, x, 8, 9000) == 1); CHECK(read(s, b, 9) == 0);", []),
    ("nothing there", "s = taken(\"\"); fcntl(s, F_SETFL, O_NONBLOCK); CHECK(read(s, b, 9) == -1 && errno == EAGAIN);"
     "e = watch(s, EPOLLIN, 5); CHECK(epoll_wait(e, x, 8, 0) == 0);", []),
    ("much there", "s = taken(\"\"); memset(b, 'z', 8192); CHECK(write(peer, b, 8192) == 8192); e = watch(s, EPOLLIN, 5); size_t all = 0;"
     "CHECK(recv(s, b, 8192, MSG_PEEK | MSG_WAITALL) == 8192); CHECK(epoll_wait(e, x, 8, 9000) == 1); CHECK(recv(s, b, 8192, MSG_WAITALL) == 8192);", [ready("z" * 4096)]),
    ("the next request, seen while another is received", "s = taken(\"one\"); int s1 = s, peer1 = peer; peer = client(\"two\"); int s2 = accept(listener, 0, 0); e = watch(s1, EPOLLIN, 1);"
     "struct epoll_event y = {EPOLLIN, {.u64 = 2}}; CHECK(epoll_ctl(e, EPOLL_CTL_ADD, s2, &y) == 0); came(s1, 3); came(s2, 3); CHECK(epoll_wait(e, x, 8, 9000) == 2);"
     "got(\"one\", read(s1, b, 9)); CHECK(write(peer1, \"three\", 5) == 5); came(s1, 5); got(\"two\", read(s2, b, 9)); CHECK(write(peer, \"four\", 4) == 4); came(s2, 4);"
     "CHECK(epoll_wait(e, x, 8, 9000) == 2); got(\"three\", read(s1, b, 9)); got(\"four\", read(s2, b, 9));", [ready(each) for each in ("two", "one", "three", "four")]),
    ("a connection that was reset, epoll", "s = taken(\"\"); setsockopt(peer, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger)); close(peer);"
     "e = watch(s, EPOLLIN, 5); CHECK(epoll_wait(e, x, 8, 9000) == 1); CHECK(read(s, b, 9) == -1 && errno == ECONNRESET);", []),
    ("a connection that was reset, poll", "s = taken(\"\"); setsockopt(peer, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger)); close(peer);"
     "struct pollfd p = {s, POLLIN}; CHECK(poll(&p, 1, 9000) == 1); CHECK(read(s, b, 9) == -1 && errno == ECONNRESET);", []),
    ("a connection that was reset, select", "s = taken(\"\"); setsockopt(peer, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger)); close(peer);"
     "fd_set r; FD_ZERO(&r); FD_SET(s, &r); CHECK(select(s + 1, &r, 0, 0, 0) == 1); CHECK(read(s, b, 9) == -1 && errno == ECONNRESET);", []),
    ("a connection that was reset while another was served", "s = taken(\"one\"); int s1 = s, peer1 = peer; peer = client(\"two\"); int s2 = accept(listener, 0, 0); e = watch(s1, EPOLLIN, 1);"
     "struct epoll_event y = {EPOLLIN, {.u64 = 2}}; CHECK(epoll_ctl(e, EPOLL_CTL_ADD, s2, &y) == 0); came(s1, 3); came(s2, 3); CHECK(epoll_wait(e, x, 8, 9000) == 2); got(\"one\", read(s1, b, 9));"
     "setsockopt(peer1, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger)); close(peer1); got(\"two\", read(s2, b, 9));"
     "CHECK(read(s1, b, 9) == -1 && errno == ECONNRESET);", [ready("two"), ready("one")]),
    ("UDP, recvfrom", "s = datagram(\"udp\"); got(\"udp\", recvfrom(s, b, 99, 0, 0, 0));", [("ready", 1, "udp")]),
    *(("UDP, an error that waits, " + what, "s = datagram(\"udp\"); int gone = socket(AF_INET, SOCK_DGRAM, 0); struct sockaddr_in y = at(0); socklen_t n = sizeof y;"
       "CHECK(bind(gone, (void*)&y, n) == 0 && getsockname(gone, (void*)&y, &n) == 0); close(gone); CHECK(connect(s, (void*)&y, n) == 0 && send(s, \"x\", 1, 0) == 1); came(s, 3); failed(s);"
       + wait + "CHECK(recv(s, b, 99, 0) == -1 && errno == ECONNREFUSED); got(\"udp\", recv(s, b, 99, 0));", [("ready", 1, "udp")]) for what, wait in (
           ("select", "fd_set r; FD_ZERO(&r); FD_SET(s, &r); CHECK(select(s + 1, &r, 0, 0, 0) == 1);"),
           ("poll", "struct pollfd o = {s, POLLIN, 0}; CHECK(poll(&o, 1, 9000) == 1 && o.revents == (POLLIN | POLLERR));"),
           ("epoll_wait", "e = watch(s, EPOLLIN, 1); CHECK(epoll_wait(e, x, 8, 9000) == 1 && x[0].events == (EPOLLIN | EPOLLERR));"))),
    ("UDP, epoll", "s = datagram(\"udp\"); e = watch(s, EPOLLIN, 1); CHECK(epoll_wait(e, x, 8, 9000) == 1); got(\"udp\", recv(s, b, 99, 0));", [("ready", 1, "udp")]),
    ("the length of a datagram, and less of its bytes", "memset(b, 'q', 3000); b[3000] = 0; s = datagram(b); char* end = edge(16); CHECK(recv(s, end, 16, MSG_TRUNC) == 3000);"
     "CHECK(memcmp(end, b, 16) == 0); close(s); s = datagram(b); CHECK(syscall(SYS_recvfrom, s, edge(16), 16, MSG_TRUNC, 0, 0) == 3000);", []),
    ("bytes of a stream thrown away", "s = taken(\"hello\"); CHECK(recv(s, (void*)8, 5, MSG_TRUNC) == 5); close(s); close(listener); s = taken(\"hello\"); struct iovec w = {(void*)8, 5};"
     "struct msghdr q = {.msg_iov = &w, .msg_iovlen = 1}; CHECK(recvmsg(s, &q, MSG_TRUNC) == 5);", []),
    ("thrown away after it was seen, and another request", "s = taken(\"one\"); e = watch(s, EPOLLIN, 5); CHECK(epoll_wait(e, x, 8, 9000) == 1); CHECK(recv(s, 0, 3, MSG_TRUNC) == 3);"
     "CHECK(write(peer, \"two\", 3) == 3); CHECK(epoll_wait(e, x, 8, 9000) == 1); got(\"two\", read(s, b, 9));", [ready("one"), ready("two")]),
    ("sockets with the same data", "s = taken(\"one\"); e = watch(s, EPOLLIN, 7); int s1 = s; peer = client(\"\"); s = accept(listener, 0, 0); struct epoll_event y = {EPOLLIN, {.u64 = 7}};"
     "CHECK(epoll_ctl(e, EPOLL_CTL_ADD, s, &y) == 0); setsockopt(peer, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger)); close(peer);"
     "CHECK(epoll_wait(e, x, 8, 9000) > 0); CHECK(read(s, b, 9) == -1 && errno == ECONNRESET); got(\"one\", read(s1, b, 9));", HELLO_ONE),
    ("sockets with the same data, one of them gone", "s = taken(\"one\"); e = watch(s, EPOLLIN, 7); int s1 = s; struct epoll_event y = {EPOLLIN, {.u64 = 7}};"
     "for (int i = 0; i < 2; ++i) { peer = client(\"\"); s = accept(listener, 0, 0); CHECK(epoll_ctl(e, EPOLL_CTL_ADD, s, &y) == 0); if (i == 0) close(s); }"
     "CHECK(epoll_wait(e, x, 8, 9000) > 0); got(\"one\", read(s1, b, 9));", HELLO_ONE),
    *((f"sockets with the same data, of which one is not waited for{what}", "s = taken(\"one\"); e = watch(s, EPOLLIN, 7); int s1 = s; struct epoll_event y = {0, {.u64 = 7}};" + before +
       "peer = client(\"two\"); s = accept(listener, 0, 0); came(s, 3); CHECK(epoll_ctl(e, EPOLL_CTL_ADD, s, &y) == 0);"
       "CHECK(epoll_wait(e, x, 8, 9000) == 1); got(\"one\", read(s1, b, 9));", HELLO_ONE) for what, before in (("", ""), (", behind one that is gone",
        "peer = client(\"\"); s = accept(listener, 0, 0); CHECK(epoll_ctl(e, EPOLL_CTL_ADD, s, &y) == 0); close(s);"))),
    *((f"a reset socket beside a pipe with the same data, {what}", "s = taken(\"\"); e = watch(s, EPOLLIN, 7); pipe_beside(e, 7); reset(peer, s); CHECK(epoll_wait(e, x, 8, 9000) == 2);"
       + body, []) for what, body in (("read", "CHECK(read(s, b, 9) == -1 && errno == ECONNRESET);"), ("SO_ERROR", "CHECK(pending(s) == ECONNRESET);"))),
    ("a socket that was reset behind a request beside a pipe with the same data", "s = taken(\"hello\"); came(s, 5); e = watch(s, EPOLLIN, 7); pipe_beside(e, 7); reset(peer, s);"
     "CHECK(epoll_wait(e, x, 8, 9000) == 2); got(\"hello\", read(s, b, 99)); CHECK(read(s, b, 9) == -1 && errno == ECONNRESET);", HELLO),
    ("UDP, an error that waits beside a pipe with the same data", "s = datagram(\"udp\"); int gone = socket(AF_INET, SOCK_DGRAM, 0); struct sockaddr_in y = at(0); socklen_t n = sizeof y;"
     "CHECK(bind(gone, (void*)&y, n) == 0 && getsockname(gone, (void*)&y, &n) == 0); close(gone); CHECK(connect(s, (void*)&y, n) == 0 && send(s, \"x\", 1, 0) == 1); came(s, 3); failed(s);"
     "e = watch(s, EPOLLIN, 7); pipe_beside(e, 7); CHECK(epoll_wait(e, x, 8, 9000) == 2); CHECK(recv(s, b, 99, 0) == -1 && errno == ECONNREFUSED); got(\"udp\", recv(s, b, 99, 0));",
     [("ready", 1, "udp")]),
    ("a socket that nobody waits for any more, its data used again", "s = taken(\"hello\"); came(s, 5); e = watch(s, EPOLLIN, 7); CHECK(epoll_ctl(e, EPOLL_CTL_DEL, s, 0) == 0);"
     "pipe_beside(e, 7); CHECK(epoll_wait(e, x, 8, 9000) == 1);", []),
    ("the same past libc", "s = taken(\"hello\"); came(s, 5); e = watch(s, EPOLLIN, 7); CHECK(syscall(SYS_epoll_ctl, e, EPOLL_CTL_DEL, s, 0) == 0);"
     "pipe_beside(e, 7); CHECK(epoll_wait(e, x, 8, 9000) == 1);", []),
    ("a socket that another epoll watches as well", "s = taken(\"hello\"); came(s, 5); int old = watch(s, EPOLLIN, 7); e = watch(s, EPOLLIN, 8); CHECK(epoll_ctl(old, EPOLL_CTL_DEL, s, 0) == 0);"
     "CHECK(epoll_wait(e, x, 8, 9000) == 1);", HELLO),
    ("a socket whose looks have an offset", "s = taken(\"hello\"); int o = 0; CHECK(setsockopt(s, SOL_SOCKET, SO_PEEK_OFF, &o, sizeof o) == 0 || errno == EOPNOTSUPP); close(s);"
     "s = own_listener(SOCK_DGRAM); CHECK(setsockopt(s, SOL_SOCKET, SO_PEEK_OFF, &o, sizeof o) == 0); int c = socket(AF_INET, SOCK_DGRAM, 0); struct sockaddr_in t = at(port);"
     "CHECK(sendto(c, \"hello\", 5, 0, (void*)&t, sizeof t) == 5); e = watch(s, EPOLLIN, 1); CHECK(epoll_wait(e, x, 8, 9000) == 1); got(\"he\", recv(s, b, 2, MSG_PEEK));"
     "got(\"llo\", recv(s, b, 9, MSG_PEEK)); got(\"hello\", recv(s, b, 9, 0));", [("ready", 1, "hello")]),
    *((f"looks that are given an offset by {what}", "s = own_listener(SOCK_DGRAM); e = watch(s, EPOLLIN, 1); int o = 0, c = socket(AF_INET, SOCK_DGRAM, 0); struct sockaddr_in t = at(port);"
       "CHECK(sendto(c, \"one\", 3, 0, (void*)&t, sizeof t) == 3); CHECK(epoll_wait(e, x, 8, 9000) == 1); got(\"one\", read(s, b, 9));" + body +
       "CHECK(sendto(c, \"hello\", 5, 0, (void*)&t, sizeof t) == 5); CHECK(epoll_wait(e, x, 8, 9000) == 1); got(\"he\", recv(s, b, 2, MSG_PEEK | MSG_DONTWAIT));"
       "got(\"llo\", recv(s, b, 9, MSG_PEEK | MSG_DONTWAIT)); got(\"hello\", recv(s, b, 9, 0));", [("ready", 1, "one"), ("ready", 1, "hello")])
      for what, body in (("a copy of the socket", "CHECK(setsockopt(dup(s), SOL_SOCKET, SO_PEEK_OFF, &o, sizeof o) == 0);"),
                         ("a child", "if (fork() == 0) { CHECK(setsockopt(s, SOL_SOCKET, SO_PEEK_OFF, &o, sizeof o) == 0); _exit(0); } CHECK(syscall(SYS_wait4, -1, 0, 0, 0) > 0);"))),
    ("UDP, recvmmsg", "s = datagram(\"udp\"); struct iovec w = {b, 99}; struct mmsghdr q[2] = {{{.msg_iov = &w, .msg_iovlen = 1}}};"
     "CHECK(recvmmsg(s, q, 2, MSG_WAITFORONE, 0) == 1 && q[0].msg_len == 3);", [("ready", 1, "udp")]),
    ("UDP, recvmmsg over its list", "s = datagram(\"one\"); struct sockaddr_in y = at(port); CHECK(sendto(s, \"two\", 3, 0, (void*)&y, sizeof y) == 3); struct iovec w[2] = {{w, 16}, {w + 1, 16}};"
     "struct mmsghdr q[2] = {{{.msg_iov = w, .msg_iovlen = 1}}, {{.msg_iov = w + 1, .msg_iovlen = 1}}}; CHECK(recvmmsg(s, q, 2, 0, 0) == 2 && memcmp(w + 1, \"two\", 3) == 0);",
     [("ready", 1, "one"), ("ready", 1, "two")]),
    ("UDP, recvmmsg, vectors that nobody can read", "s = datagram(\"udp\"); CHECK(recvmmsg(s, (void*)8, 1, 0, 0) == -1 && errno == EFAULT); struct mmsghdr q = {{.msg_iov = (void*)8, .msg_iovlen = 1}};"
     "CHECK(recvmmsg(s, &q, 1, 0, 0) == -1 && errno == EFAULT); got(\"udp\", read(s, b, 99));", [("ready", 1, "udp")]),
]
# The program as a client of the port; the test's own server answers "answer".
CLIENTS = [(what, f"s = socket(AF_INET, SOCK_STREAM, 0); struct sockaddr_in y = at(port); {body} got(\"answer\", recv(s, b, 6, MSG_WAITALL));", [ready("answer")])
           for what, body in (
    ("connect", "CHECK(connect(s, (void*)&y, sizeof y) == 0);"), ("__connect", "CHECK(__connect(s, (void*)&y, sizeof y) == 0);"),
    ("connect without waiting", "fcntl(s, F_SETFL, O_NONBLOCK); CHECK(connect(s, (void*)&y, sizeof y) == 0 || errno == EINPROGRESS);"
     "struct pollfd p = {s, POLLOUT}; CHECK(poll(&p, 1, 9000) == 1); fcntl(s, F_SETFL, 0);"))]
INHERITED = [("a listener that was there before", "s = accept(0, 0, 0); CHECK(s > 0); got(\"late\", recv(s, b, 4, MSG_WAITALL));", [ready("late")])]
OTHERS = [
    ("an error", "s = socket(AF_INET, SOCK_STREAM, 0); struct sockaddr_in y = at(port); CHECK(connect(s, (void*)&y, sizeof y) == -1 && errno == ECONNREFUSED);"
     "CHECK(connect(s, (void*)8, 16) == -1 && errno == EFAULT); CHECK(accept(-1, 0, 0) == -1 && errno == EBADF); CHECK(listen(-1, 1) == -1 && errno == EBADF);"
     "errno = 33; close(own_listener(SOCK_STREAM)); CHECK(errno == 33);", []),
]

# A request comes on one of some sockets that were answered, and then the program reads a file that is in memory or not: its third argument says how, and how many
# sockets. 77: it cannot be taken out of memory here.
READER = HEAD + """
case 0: { int s1 = -1, peer1 = -1, many = atoi(a[4] + 2);
for (int i = 0; i < many; ++i) {
    if (i) close(listener);
    s = taken("one"); int w = watch(s, EPOLLIN, 1); CHECK(epoll_wait(w, x, 8, 9000) == 1); got("one", read(s, b, 9));
    /* The first of many, who has asked for nothing since, is forgotten. */
    if (i == many / 7) { s1 = s; peer1 = peer; e = w; }
}
int f = open(a[3], O_RDONLY), out = open("/dev/null", O_WRONLY); CHECK(f >= 0 && out >= 0); CHECK(pread(f, b, 4096, 0) == 4096);
if (a[4][0] == 'c') {
    unsigned char there = 1; void* p = (void*)syscall(SYS_mmap, 0, 4096, PROT_READ, MAP_SHARED, f, 0); CHECK(p != MAP_FAILED);
    /* The kernel keeps a page that it is about to move between its lists. */
    for (int i = 0; i < 1000 && there & 1; ++i) { if (i) usleep(1000); CHECK(posix_fadvise(f, 0, 0, POSIX_FADV_DONTNEED) == 0 && mincore(p, 4096, &there) == 0); }
    syscall(SYS_munmap, p, 4096); if (there & 1) _exit(77);
}
CHECK(write(peer1, "three", 5) == 5); off_t o = 0, nowhere = -1; came(s1, 5);
CHECK(sendfile(out, f, &nowhere, 4096) == -1 && errno == EINVAL && lseek(f, 0, SEEK_CUR) == 0);
/* sendfile is no place at which a thread may be cancelled. */
CHECK(a[4][1] != 's' || pthread_cancel(pthread_self()) == 0);
switch (a[4][1]) { case 'p': CHECK(pread(f, b, 4096, 0) == 4096 && b[0] == 'i' && b[4095] == 'i'); break; case 's': CHECK(sendfile(out, f, &o, 4096) == 4096 && o == 4096); break;
/* But this is one, also where the bytes are in memory. */
case 'x': pthread_cleanup_push(gone, 0); CHECK(pthread_cancel(pthread_self()) == 0); pread(f, b, 4096, 0); CHECK(!"still there"); pthread_cleanup_pop(0); }
CHECK(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, 0) == 0);
CHECK(epoll_wait(e, x, 8, 9000) == 1); got("three", read(s1, b, 9)); break; }
} return 0; }
"""


def looks_before_it_waits(checks, port):
    """What has arrived by the time when a read has to wait is told of before it waits; of one that need not wait, nobody looks, nor where many were answered."""
    program = checks.compile("reader", READER.replace("#include <unistd.h>", "#include <pthread.h>\n#include <sys/sendfile.h>\n#include <unistd.h>\nstatic void gone(void* x) { _exit(0); }", 1))
    path = checks.folder / "big.idx"
    with open(path, "wb") as file:
        file.write(b"i" * 4096)
        os.fsync(file.fileno())
    one, three, read = ready("one"), ready("three"), ("read", 0, 4096)
    for how, wanted in (("wp1", [one, read, read, three]), ("cp1", [one, read, three, read]), ("ws1", [one, read, read, three]), ("cs1", [one, read, three, read]), ("wx1", [one, read]),
                        ("cp10", [*[one] * 10, read, three, read]), ("cp11", [*[one] * 11, read, read, three])):
        # A disk may have the page there before the kernel looks whether it has to wait for it; then nobody waits, and nobody looks. One try in four was so. And some machines
        # lose a page of the cache now and then, which is waited for then.
        for _ in range(100):
            with Server(checks.folder, classes=["*.idx"], sockets=[{"port": port, "tcp": 1}]) as server:
                done = server.run(program, 0, port, path, how, stderr=subprocess.PIPE)
            told = [row for row in summary(server.events) if row[0] in ("ready", "read")]
            if done.returncode != 0 or told == wanted:
                break
        if done.returncode == 77:
            print(f"skipped: a read that waits ({how}): {path} cannot be taken out of memory")
            continue
        checks.same(f"a request before a read, {how}: exit code {done.stderr.decode()[-300:]}", done.returncode, 0)
        checks.same(f"a request before a read, {how}", told, wanted)


# Of so many sockets that one wait hands out, the first asks again while the program is busy with the second; it waits no more.
MANY = HEAD.replace("static struct epoll_event x[8]", "static struct epoll_event x[16]") + """
case 0: { int many = atoi(a[3]), all[16], peers[16]; e = epoll_create1(0);
for (int i = 0; i < many; ++i) {
    if (i) close(listener);
    all[i] = s = taken("one"); peers[i] = peer; came(s, 3);
    struct epoll_event y = {EPOLLIN, {.u64 = i}}; CHECK(epoll_ctl(e, EPOLL_CTL_ADD, s, &y) == 0);
}
CHECK(epoll_wait(e, x, 16, 9000) == many);
got("one", read(all[0], b, 9)); CHECK(write(peers[0], "two", 3) == 3); came(all[0], 3); got("one", read(all[1], b, 9)); break; }
} return 0; }
"""


def looks_in_between(checks, port):
    """Where a wait has brought many whose files lie on a disk, nobody looks whether others have asked before the next."""
    program = checks.compile("many", MANY)
    for many, disk, told in ((2, 0, True), (2, 7, True), (10, 0, True), (9, 7, True), (10, 7, False)):
        with Server(checks.folder, sockets=[{"port": port, "tcp": 1}], disk=disk) as server:
            done = server.run(program, 0, port, many, stderr=subprocess.PIPE)
        what = f"{many} at once, a disk is {'known' if disk else 'not known'}"
        checks.same(f"{what}: exit code {done.stderr.decode()[-300:]}", done.returncode, 0)
        checks.same(what, summary(server.events), [ready("one")] * many + [ready("two")] * told)


def judge(checks, server, what, done, before, wanted):
    server.say("next")
    checks.same(f"{what}: exit code {done.stderr.decode()[-300:]}", done.returncode, 0)
    checks.same(what, summary(server.events[before:]), wanted)


def main():
    checks = Checks()
    cases = CASES + CLIENTS + INHERITED + OTHERS
    text = HEAD + "".join(f"case {i}: {{ {body} break; }}\n" for i, (_, body, _) in enumerate(cases)) + "}\nreturn 0; }\n"
    program = checks.compile("sockets", text)
    held, port = held_port()
    with Server(checks.folder, sockets=[{"port": port, "tcp": 1}, {"port": port, "tcp": 0}]) as server:
        for i, (what, _, wanted) in enumerate(cases):
            before = len(server.events)
            if (what, _, wanted) in CLIENTS:
                with socket.socket() as listener:
                    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                    listener.bind(("127.0.0.1", port))
                    listener.listen()
                    child = started.start([program, i, port], env=environment(server.region), stderr=subprocess.PIPE)
                    with listener.accept()[0] as peer:
                        peer.sendall(b"answer")
                        done = subprocess.CompletedProcess([], child.wait(), stderr=child.stderr.read())
                    child.stderr.close()
            elif (what, _, wanted) in INHERITED:
                with socket.socket() as listener:
                    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                    listener.bind(("127.0.0.1", port))
                    listener.listen()
                    with socket.create_connection(("127.0.0.1", port)) as peer:
                        peer.sendall(b"late")
                        done = server.run(program, i, port, stdin=listener, stderr=subprocess.PIPE)
            else:
                done = server.run(program, i, port, stderr=subprocess.PIPE)
            judge(checks, server, what, done, before, wanted)
    checks.same("lost", server.end["lost"], 0)
    with Server(checks.folder, sockets=[{"port": port ^ 1, "tcp": 1}], explain=True) as server:
        server.run(program, 0, port)
    checks.same("what matches nothing is explained", [event["text"] for event in server.of("passed") if "port" in event["text"]],
                [f"listen tcp port {port}", f"connect tcp port {port}", f"accept tcp port {port}"])
    for tcp, what in ((0, "read alone"), (1, "UDP, recvfrom")):
        with Server(checks.folder, sockets=[{"port": port, "tcp": tcp}]) as server:
            server.run(program, [case[0] for case in cases].index(what), port)
        checks.same(f"the port of the other protocol: {what}", server.events, [])
    with Server(checks.folder, sockets=[{"port": port, "tcp": 1}], posts={"socket": 0}) as server:
        server.run(program, 1, port)
    checks.same("nobody wants to hear of them", server.events, [])
    with Server(checks.folder, sockets=[{"port": port, "tcp": 1}]) as server:
        server.say("asleep")
        server.run(program, 1, port)
        checks.same("the sleeping server is woken", server.say("look")["asleep"], 0)
    looks_before_it_waits(checks, port)
    looks_in_between(checks, port)
    held.close()
    checks.finish()


if __name__ == "__main__":
    main()
