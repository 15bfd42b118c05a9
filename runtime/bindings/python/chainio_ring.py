"""Ask a service of a running chainio-runtime over shared memory, over libchainio-ring.

    with chainio_ring.open("/run/store.rings", "store") as store:
        print(store.call(b"get hello\\r\\n"))
        for key in ("a", "b"):
            store.submit(f"get {key}\\r\\n", key)
        while store.in_flight:
            for key, reply in store.reap():
                print(key, reply)

A reply is bytes, or None where the server has given none.
"""
import collections
import ctypes
import errno
import itertools
import threading
import time

from chainio import ChainioError, _library, _name, _path, _refusal, _size, _text

__all__ = ["ChainioError", "Ring", "open"]

_u32, _u64 = ctypes.c_uint32, ctypes.c_uint64
_LONGEST_WAIT = 0.2  # seconds: Python's handlers of signals run between two
_AT_ONCE = 64  # replies that are fetched by one call
_GIVEN_UP = object()


class _Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("in_flight", _u32), ("longest", _u32), ("spin_us", _u32), ("open_ms", _u32)]


class _Reply(ctypes.Structure):
    _fields_ = [("user_data", _u64), ("bytes", ctypes.c_void_p), ("length", ctypes.c_size_t), ("frame", ctypes.c_void_p), ("reserved", _u64 * 2)]


def _load():
    lib = _library("chainio-ring", "CHAINIO_RING_LIBRARY")
    ring = ctypes.c_void_p
    lib.chainio_ring_open.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(_Options), ctypes.POINTER(ring)]
    lib.chainio_ring_close.argtypes, lib.chainio_ring_close.restype = [ring], None
    lib.chainio_ring_error.argtypes, lib.chainio_ring_error.restype = [ring], ctypes.c_char_p
    lib.chainio_ring_longest.argtypes, lib.chainio_ring_longest.restype = [ring], ctypes.c_size_t
    lib.chainio_ring_take.argtypes, lib.chainio_ring_take.restype = [ring], ctypes.c_void_p
    lib.chainio_ring_submit.argtypes = [ring, ctypes.c_void_p, ctypes.c_size_t, _u64]
    lib.chainio_ring_reap.argtypes = [ring, ctypes.POINTER(_Reply), _u32, ctypes.c_int]
    lib.chainio_ring_release.argtypes = [ring, ctypes.c_void_p]
    lib.chainio_ring_fd.argtypes = [ring]
    return lib


def _request(value):
    """What is sent; of an integer `bytes` would make as many zeros."""
    if isinstance(value, str):
        value = value.encode()
    try:
        return value if isinstance(value, bytes) else bytes(memoryview(value))
    except TypeError:
        raise TypeError(f"a request is text or bytes, such as b'get a\\r\\n', not {value!r:.80}") from None


class _Until:
    """When the time is up; None: never."""

    def __init__(self, seconds):
        self._end = None if seconds is None else time.monotonic() + seconds

    def left(self):
        return float("inf") if self._end is None else max(0.0, self._end - time.monotonic())


class Ring:
    """An open service. Belongs to one thread at a time: others wait for their turn. After a fork one process goes on with it."""

    _handle = None

    def __init__(self, path, service, in_flight=64, longest=65536, spin_us=0, open_timeout=10.0):
        self._lib = _load()
        self._lock = threading.RLock()
        self._numbers = itertools.count()
        self._tags = {}                     # of the requests whose replies have not come, by number
        self._given_up = 0                  # of these, whose tag is _GIVEN_UP
        self._came = collections.deque()    # (tag, reply) that nobody has reaped
        options = _Options(size=ctypes.sizeof(_Options), in_flight=_size("in_flight", in_flight), longest=_size("longest", longest),
                           spin_us=_size("spin_us", spin_us), open_ms=_size("open_timeout", max(1, round(open_timeout * 1000))))
        handle = ctypes.c_void_p()
        result = self._lib.chainio_ring_open(_path(path), _name("a service", service), ctypes.byref(options), ctypes.byref(handle))
        if result < 0:
            raise _refusal(-result, _text(self._lib.chainio_ring_error(None)).replace("options->open_ms", "open_timeout in ms").replace("options->", ""))
        self._handle = handle

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if self._handle:
            self.close()

    def __reduce__(self):
        raise TypeError("an open service can be neither copied nor pickled; open it again")

    def close(self):
        """The server gives up what is on its way."""
        with self._lock:
            if self._handle:
                self._lib.chainio_ring_close(self._handle)
                self._handle = None
                self._tags.clear()
                self._came.clear()
                self._given_up = 0

    def _held(self):
        if not self._handle:
            raise _refusal(errno.EBADF, "the service is closed; open it again")
        return self._handle

    def _check(self, result):
        if result < 0:
            raise _refusal(-result, _text(self._lib.chainio_ring_error(self._handle)))
        return result

    @property
    def in_flight(self):
        """Requests that were submitted, and whose replies were not reaped."""
        return len(self._came) + len(self._tags) - self._given_up

    @property
    def longest(self):
        """Bytes of the longest request, and reply."""
        with self._lock:
            return self._lib.chainio_ring_longest(self._held())

    def fileno(self):
        """A descriptor that is readable where replies can be reaped, or the server is gone, for `select` and event loops. It may be
        readable without either, until a reap(0) finds nothing. Replies that a call() has met are there for reap() at once."""
        with self._lock:
            return self._check(self._lib.chainio_ring_fd(self._held()))

    def submit(self, request, tag=None):
        """Hands a request over, and does not wait. reap() gives the tag, any object, with its reply."""
        self._submit(_request(request), tag)

    def _submit(self, request, tag):
        with self._lock:
            if len(request) > self.longest:
                raise _refusal(errno.EMSGSIZE, f"a request has at most {self.longest} bytes, not {len(request)}: open with a larger `longest`")
            frame = self._lib.chainio_ring_take(self._held())
            if not frame:
                raise _refusal(errno.EBUSY, "all frames are on their way: reap some, or open with more in_flight")
            ctypes.memmove(frame, request, len(request))
            number = next(self._numbers)
            self._tags[number] = tag
            try:
                self._check(self._lib.chainio_ring_submit(self._handle, frame, len(request), number))
            except ChainioError:
                del self._tags[number]
                self._lib.chainio_ring_release(self._handle, frame)
                raise
            return number

    def reap(self, timeout=None):
        """The replies that have come, as a list of (tag, reply); waits for the first of them for `timeout` seconds (None: without end).
        The list is empty where none came in time, or none is on its way."""
        until = _Until(timeout)
        with self._lock:
            while not self._came and self._fetch(until) and self.in_flight:
                pass
            came = list(self._came)
            self._came.clear()
            return came

    def _fetch(self, until):
        """Waits for some replies, for a while; whether there is time left."""
        left = until.left()
        replies = (_Reply * _AT_ONCE)()
        wait = round(min(left, _LONGEST_WAIT) * 1000 + 0.499)
        count = self._check(self._lib.chainio_ring_reap(self._held(), replies, _AT_ONCE, wait))
        for reply in replies[:count]:
            tag = self._tags.pop(reply.user_data)
            if tag is _GIVEN_UP:
                self._given_up -= 1
            else:
                self._came.append((tag, ctypes.string_at(reply.bytes, reply.length) if reply.bytes else None))
            self._lib.chainio_ring_release(self._handle, reply.frame)
        return left > 0

    def _taken_out(self, mine):
        """The reply of that tag among those that have come."""
        at = next(i for i, (tag, _) in enumerate(self._came) if tag is mine)
        reply = self._came[at][1]
        del self._came[at]
        return reply

    def call(self, request, timeout=None):
        """One request and its reply. TimeoutError after so many seconds; a reply that comes later is thrown away."""
        until, mine = _Until(timeout), object()
        with self._lock:
            number = self._submit(_request(request), mine)
            try:
                in_time = True
                while in_time:
                    in_time = self._fetch(until)
                    if number not in self._tags:
                        return self._taken_out(mine)
            finally:
                if number in self._tags:
                    self._tags[number] = _GIVEN_UP
                    self._given_up += 1
            raise _refusal(errno.ETIMEDOUT, f"no reply has come within {timeout} s")


def open(path, service, in_flight=64, longest=65536, spin_us=0, open_timeout=10.0):
    """`path`: what chainio-runtime got as --rings. `in_flight`: requests at once, up to 1,024; `longest`: bytes of a request or reply, up
    to 131,072; `spin_us`: looks that long for replies before it sleeps; `open_timeout`: seconds that the server may take to answer."""
    return Ring(path, service, in_flight, longest, spin_us, open_timeout)
