"""Call the chains of a ChainIO artifact from Python, over libchainio-call.

    with chainio.open("app.bpf.o") as app:
        db = app.file("big.db")
        result = app.call("lookup", db=db, key=42)
        print(result.outcome, result.value)

`app.map("lookup", rows, in_flight=64)` runs many and yields (row, Result) as they end.
"""
import collections
import collections.abc
import contextlib
import ctypes
import ctypes.util
import difflib
import errno
import functools
import itertools
import operator
import os
import pathlib
import threading

Result = collections.namedtuple("Result", "outcome value hops ns")

_FILE, _SCALAR, _BYTES = 0, 1, 2
_u32, _u64 = ctypes.c_uint32, ctypes.c_uint64


class ChainioError(OSError):
    """A refusal; the text says what was wrong and what to do. One whose number Python has a class for is of that class, too, so that
    `except FileNotFoundError` finds it."""

    def __reduce__(self):
        return (_refusal, self.args)  # as the classes that _refusal makes have no name to be found by


@functools.cache
def _refused_as(kind):
    return ChainioError if kind is OSError else type("ChainioError", (ChainioError, kind), {"__module__": __name__})


def _refusal(*said):
    return _refused_as(type(OSError(*said)))(*said)


class _Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("in_flight", _u32), ("max_files", _u32), ("memory", _u64), ("flags", _u32),
                ("spin_us", _u32)]


class _ChainInfo(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("params", _u32), ("hops", _u32), ("result_kind", _u32),
                ("result_bits", _u32), ("result_signed", _u32), ("result_max", _u32)]


class _ParamInfo(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("file_class", ctypes.c_char_p), ("kind", _u32),
                ("bits", _u32), ("is_signed", _u32), ("max_bytes", _u32)]


class _Arg(ctypes.Structure):
    _fields_ = [("kind", _u32), ("length", _u32), ("value", _u64), ("bytes", ctypes.c_char_p)]


class _Completion(ctypes.Structure):
    _fields_ = [("user_data", _u64), ("chain", _u32), ("outcome", _u32), ("kind", _u32), ("length", _u32), ("value", _u64),
                ("bytes", ctypes.c_void_p), ("ns", _u64), ("hops", _u32), ("reserved", _u32 * 3)]


def _built(root, name):
    """The libraries of build trees, the newest first; those that cannot be looked at are left out, as links to what is gone."""
    found = []
    for path in root.glob(f"build/*/lib/lib{name}.so.0"):
        with contextlib.suppress(OSError):
            found.append((path.stat().st_mtime, path))
    return [path for _, path in sorted(found, reverse=True)]


def _places(name, variable):
    """Where the library may be, one after the other, as the next is only looked for where the one before is none: the one that
    the variable names and no other, else that of the prefix below which this file is installed, the loader's, and those of the
    build trees that it lies beside."""
    if named := os.environ.get(variable):
        yield named
        return
    root = pathlib.Path(__file__).resolve().parent.parent.parent.parent  # the prefix, or the sources
    for folder in ("lib*", "lib/*"):
        yield from sorted(root.glob(f"{folder}/lib{name}.so.0"))
    yield ctypes.util.find_library(name) or f"lib{name}.so.0"
    yield from _built(root, name)


def _library(name, variable):
    said = []
    for place in _places(name, variable):
        try:
            return ctypes.CDLL(str(place))
        except OSError as error:
            said.append(str(error))
    raise ChainioError(f"lib{name} cannot be loaded ({'; '.join(said)}); install ChainIO (cmake --install build/release, then "
                       f"ldconfig), or name the library in {variable}")


def _load():
    lib = _library("chainio-call", "CHAINIO_CALL_LIBRARY")
    handle = ctypes.c_void_p
    lib.chainio_error.restype = lib.chainio_describe.restype = lib.chainio_outcome_name.restype = ctypes.c_char_p
    lib.chainio_error.argtypes = lib.chainio_describe.argtypes = [handle]
    lib.chainio_outcome_name.argtypes = [handle, _u32]
    lib.chainio_open.argtypes = [ctypes.c_char_p, ctypes.POINTER(_Options), ctypes.POINTER(handle)]
    lib.chainio_close.argtypes, lib.chainio_close.restype = [handle], None
    lib.chainio_file_open.argtypes = [handle, ctypes.c_char_p, ctypes.c_char_p, _u32, ctypes.POINTER(_u64)]
    lib.chainio_file_close.argtypes = [handle, _u64]
    lib.chainio_find_chain.argtypes = [handle, ctypes.c_char_p]
    lib.chainio_get_chain.argtypes = [handle, _u32, ctypes.POINTER(_ChainInfo)]
    lib.chainio_get_param.argtypes = [handle, _u32, _u32, ctypes.POINTER(_ParamInfo)]
    lib.chainio_submit.argtypes = [handle, _u32, ctypes.POINTER(_Arg), _u32, _u64]
    lib.chainio_reap.argtypes = [handle, ctypes.POINTER(_Completion), _u32, _u32]
    lib.chainio_cancel.argtypes = [handle, _u64]
    lib.chainio_in_flight.argtypes, lib.chainio_in_flight.restype = [handle], _u32
    return lib


File = collections.namedtuple("File", "number path")
_Param = collections.namedtuple("_Param", "name kind bits signed")
_Chain = collections.namedtuple("_Chain", "number params bits signed")


def _scalar(chain, param, value):
    """The value, when the parameter can hold it: what is cut off here the library would never see."""
    try:
        if isinstance(value, bool):  # Python's are integers, though none is meant
            raise TypeError
        value = operator.index(value)  # which integers of other libraries have, too
    except TypeError:
        raise TypeError(f"parameter '{param.name}' of chain '{chain}': {value!r:.80} is no integer; an integer is wanted, such as 42") from None
    low, high = (-(1 << param.bits - 1), (1 << param.bits - 1) - 1) if param.signed else (0, (1 << param.bits) - 1)
    if not low <= value <= high:
        raise OverflowError(f"parameter '{param.name}' of chain '{chain}': {value} is not between {low} and {high}")
    return value


def _bytes(chain, param, value):
    """What the value holds; of an integer `bytes` would make as many zeros."""
    if isinstance(value, str):
        value = value.encode()
    try:
        view = memoryview(value)
    except TypeError:
        raise TypeError(f"parameter '{param.name}' of chain '{chain}': {value!r:.80} is no text and no bytes; these are wanted, such as b'42'") from None
    if view.nbytes >> 32:
        raise OverflowError(f"parameter '{param.name}' of chain '{chain}': {view.nbytes} bytes are too many")
    return value if isinstance(value, bytes) else bytes(view)


def _meant(word, names):
    near = difflib.get_close_matches(str(word), names, 1)
    return f"did you mean '{near[0]}'?" if near else f"the parameters are {', '.join(names)}" if names else "there are no parameters"


def _size(name, value, bits=32):
    """The value, when the option can hold it, as for parameters."""
    if not 0 <= operator.index(value) < 1 << bits:
        raise OverflowError(f"{name}: {value} is not between 0 and {(1 << bits) - 1}")
    return operator.index(value)


def _path(path):
    """As C takes it, which would stop at a zero byte, and open another file."""
    name = os.fsencode(path)
    if b"\0" in name:
        raise ValueError(f"the path {path!r:.80} has a zero byte in it")
    return name


def _name(what, name):
    if not isinstance(name, str):
        raise TypeError(f"the name of {what} is a text, not {name!r:.80}")
    if "\0" in name:
        raise ValueError(f"the name of {what}, {name!r:.80}, has a zero byte in it")
    return name.encode()


def _text(said):
    """What the library says; it names paths by their bytes, which may be no UTF-8."""
    return said.decode(errors="backslashreplace")


def _in_python(said):
    """The same about options, which are called otherwise in C."""
    return said.replace("no CHAINIO_KERNEL_ENGINE", "no kernel=True").replace("options->", "")


_NO_ROW = object()


class _Map:
    """What one call of `map` has under way: the numbers of its chains, and those that have ended."""

    def __init__(self):
        self.running, self.ended = set(), collections.deque()


class App:
    """An open artifact. Belongs to the thread that uses it first: others wait for their turn, and may be refused."""

    _handle = None

    def __init__(self, artifact, in_flight=64, interpret=False, kernel=False, spin_us=0, auto=False, max_files=64, memory=0):
        self._lib = _load()
        self._lock = threading.RLock()
        self._chains = {}
        self._numbers = itertools.count()
        self._running = {}  # number: (_Map, name, row)
        self._capacity = _size("in_flight", in_flight) or 64
        flags = (1 if interpret else 0) | (8 if kernel else 0) | (16 if auto else 0)
        options = _Options(size=ctypes.sizeof(_Options), in_flight=self._capacity, max_files=_size("max_files", max_files),
                           memory=_size("memory", memory, 64), flags=flags, spin_us=_size("spin_us", spin_us))
        if (interpret or auto) and kernel or interpret and auto:
            raise _refusal(errno.EINVAL, "of interpret, kernel and auto only one can be True")
        handle = ctypes.c_void_p()
        result = self._lib.chainio_open(_path(artifact), ctypes.byref(options), ctypes.byref(handle))
        if result < 0:
            said = _text(self._lib.chainio_error(None))
            raise _refusal(-result, _in_python(said) if -result in (errno.EINVAL, errno.ENOMEM) else said)
        self._handle = handle

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if self._handle:
            self.close()

    def __reduce__(self):
        raise TypeError("an open artifact can be neither copied nor pickled; open it again")

    def close(self):
        with self._lock:
            if self._handle:
                self._lib.chainio_close(self._handle)
                self._handle = None
                self._running.clear()

    def _held(self):
        """The handle, which is no use to C once it is closed."""
        if not self._handle:
            raise _refusal(errno.EBADF, "the artifact is closed; open it again")
        return self._handle

    def _check(self, result):
        if result < 0:
            raise _refusal(-result, _text(self._lib.chainio_error(self._handle)))
        return result

    @property
    def engine(self):
        with self._lock:
            return _in_python(_text(self._lib.chainio_describe(self._held())))

    def file(self, path, file_class=None, direct=None):
        """Opens a file; `file_class` may be left out when the artifact has one. `direct` overrides what the class says."""
        number = _u64()
        flags = 0 if direct is None else 1 if direct else 2
        name = _name("a file class", file_class) if file_class is not None else None
        with self._lock:
            self._check(self._lib.chainio_file_open(self._held(), name, _path(path), flags, ctypes.byref(number)))
        return File(number.value, path)

    def close_file(self, file):
        """Closes what `file()` returned, which no chain in flight uses; another one can be opened in its place."""
        if not isinstance(file, File):
            raise TypeError(f"{file!r:.80} is no file; give what `file()` returned")
        with self._lock:
            self._check(self._lib.chainio_file_close(self._held(), file.number))

    def _chain(self, name):
        if name in self._chains:
            return self._chains[name]
        number = self._check(self._lib.chainio_find_chain(self._held(), _name("a chain", name)))
        info = _ChainInfo(size=ctypes.sizeof(_ChainInfo))
        self._check(self._lib.chainio_get_chain(self._handle, number, ctypes.byref(info)))
        params = []
        for i in range(info.params):
            param = _ParamInfo(size=ctypes.sizeof(_ParamInfo))
            self._check(self._lib.chainio_get_param(self._handle, number, i, ctypes.byref(param)))
            params.append(_Param(param.name.decode(), param.kind, param.bits, bool(param.is_signed)))
        self._chains[name] = _Chain(number, params, info.result_bits, bool(info.result_signed))
        return self._chains[name]

    def _prepare(self, name, values):
        """The chain, and its arguments as C takes them."""
        chain = self._chain(name)
        if not isinstance(values, collections.abc.Mapping):
            raise TypeError(f"a row of chain '{name}' is a dict of its parameters, not {values!r:.80}")
        names = [param.name for param in chain.params]
        for given in values:
            if given not in names:
                raise TypeError(f"chain '{name}' has no parameter '{given}'; {_meant(given, names)}")
        args = (_Arg * max(1, len(chain.params)))()
        for arg, param in zip(args, chain.params):
            if param.name not in values:
                raise TypeError(f"parameter '{param.name}' of chain '{name}' is not given")
            value = values[param.name]
            arg.kind = param.kind
            if param.kind == _FILE:
                if not isinstance(value, File):
                    raise TypeError(f"parameter '{param.name}' of chain '{name}' is a file; give what `file()` returned")
                arg.value = value.number
            elif param.kind == _SCALAR:
                arg.value = _scalar(name, param, value) & 0xFFFFFFFFFFFFFFFF
            else:
                data = _bytes(name, param, value)
                arg.bytes, arg.length = data, len(data)
        return chain, args

    def _result(self, name, done):
        outcome = self._lib.chainio_outcome_name(self._handle, done.outcome).decode()
        value = None
        if done.outcome == 0:
            chain = self._chain(name)
            if done.kind == _SCALAR:
                value = done.value & ((1 << chain.bits) - 1)
                if chain.signed and value >> (chain.bits - 1):
                    value -= 1 << chain.bits
            else:
                value = ctypes.string_at(done.bytes, done.length) if done.length else b""
        return Result(outcome, value, done.hops, done.ns)

    def call(self, name, /, **values):
        """Runs one chain and waits for it. Its parameters may have any name, `name` too."""
        for _, result in self.map(name, [values]):
            return result

    def map(self, name, rows, in_flight=None):
        """Runs the chain for each row (a dict of parameters), many at once; yields (row, Result) as they end. A loop that is left
        early, or ended by an error, cancels the chains that have not ended. Amid the loop other chains may be called and mapped."""
        limit = self._capacity if in_flight is None else min(_size("in_flight", in_flight), self._capacity)
        if not limit:
            raise ValueError("in_flight: with 0 rows in flight none is run; give 1 or more, or None for as many as the artifact was opened with")
        return self._run_all(name, iter(rows), limit)

    def _run_all(self, name, rows, limit):
        mine = _Map()
        try:
            while True:
                while rows is not None and len(mine.running) < limit:
                    row = next(rows, _NO_ROW)
                    if row is _NO_ROW:
                        rows = None
                        break
                    self._start(name, row, mine)
                if not mine.running and not mine.ended:
                    return
                if not mine.ended:
                    self._reap(mine)
                # The bytes of a completion live until the next reap, which the caller may bring about between two yields.
                while mine.ended:
                    yield mine.ended.popleft()
        finally:
            self._cancel(mine)

    def _start(self, name, row, mine):
        with self._lock:
            # What others have in flight may fill the handle. What of it ends they find when they go on.
            while len(self._running) >= self._capacity:
                self._reap(mine)
            chain, args = self._prepare(name, row)
            number, before = next(self._numbers), self._lib.chainio_in_flight(self._held())
            try:
                # Known before it begins, as an exception from outside, such as a signal's, may come right behind that.
                self._running[number] = (mine, name, row)
                mine.running.add(number)
                self._check(self._lib.chainio_submit(self._held(), chain.number, args, len(chain.params), number))
            except BaseException:
                if not self._handle or self._lib.chainio_in_flight(self._handle) == before:
                    self._forget(number)
                raise

    def _forget(self, number):
        """Gives what was known of a chain that no longer runs, or nothing when that was forgotten before."""
        known = self._running.pop(number, None)
        if known:
            known[0].running.discard(number)
        return known

    def _reap(self, mine):
        """Waits until a chain has ended, and gives each that has to the map that began it."""
        with self._lock:
            if not self._lib.chainio_in_flight(self._held()):
                self._running.clear()
                if mine.running:
                    raise _refusal(errno.EINTR, "an exception from outside, as of a signal, took results away; run the rows again")
                return
            room = min(self._capacity, 1024)
            done = (_Completion * room)()
            for ended in done[:self._check(self._lib.chainio_reap(self._held(), done, room, 1))]:
                known = self._forget(ended.user_data)
                if known:
                    owner, name, row = known
                    owner.ended.append((row, self._result(name, ended)))

    def _cancel(self, mine):
        with self._lock:
            for number in mine.running & self._running.keys():
                self._lib.chainio_cancel(self._held(), number)  # of one that has ended, there is nothing to cancel
            while self._handle and mine.running and self._lib.chainio_in_flight(self._handle):
                self._reap(mine)
            for number in list(mine.running):
                self._forget(number)


def open(artifact, in_flight=64, interpret=False, kernel=False, spin_us=0, auto=False, max_files=64, memory=0):
    """`kernel`: by the kernel engine, or not at all; `spin_us`: looks that long for completions before it sleeps. `auto`: by the kernel
    engine once a trial of the chains at hand has found it no worse. `max_files`: files that are open at once; `memory`: bytes for
    blocks, 0: chosen by `in_flight`."""
    return App(artifact, in_flight, interpret, kernel, spin_us, auto, max_files, memory)
