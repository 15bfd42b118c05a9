"""Call the chains of a ChainIO artifact from Python, over libchainio-call.

    with chainio.open("app.bpf.o") as app:
        db = app.file("big.db")
        result = app.call("lookup", db=db, key=42)
        print(result.outcome, result.value)

`app.map("lookup", rows, in_flight=64)` runs many and yields (row, Result) as they end.
"""
import collections
import ctypes
import ctypes.util
import operator
import os
import pathlib

Result = collections.namedtuple("Result", "outcome value hops ns")

_FILE, _SCALAR, _BYTES = 0, 1, 2
_u32, _u64 = ctypes.c_uint32, ctypes.c_uint64


class ChainioError(OSError):
    """A refusal; the text says what was wrong and what to do."""


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


def _library():
    """The one that CHAINIO_CALL_LIBRARY names, else the installed one, else the newest of the build trees that this file lies beside."""
    named = os.environ.get("CHAINIO_CALL_LIBRARY")
    root = pathlib.Path(__file__).resolve().parent.parent.parent.parent  # of the sources
    built = sorted(root.glob("build/*/lib/libchainio-call.so.0"), key=lambda path: path.stat().st_mtime, reverse=True)
    places = [named] if named else [ctypes.util.find_library("chainio-call") or "libchainio-call.so.0", *map(str, built)]
    said = []
    for place in places:
        try:
            return ctypes.CDLL(place)
        except OSError as error:
            said.append(str(error))
    raise ChainioError(f"libchainio-call cannot be loaded ({'; '.join(said)}); install ChainIO (cmake --install build/release, then "
                       "ldconfig), or name the library in CHAINIO_CALL_LIBRARY")


def _load():
    lib = _library()
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
        return value.encode()
    try:
        return bytes(memoryview(value))
    except TypeError:
        raise TypeError(f"parameter '{param.name}' of chain '{chain}': {value!r:.80} is no text and no bytes; these are wanted, such as b'42'") from None


class App:
    """An open artifact. Belongs to the thread that uses it first."""

    def __init__(self, artifact, in_flight=64, interpret=False, kernel=False, spin_us=0, auto=False, max_files=64, memory=0):
        self._lib = _load()
        self._handle = ctypes.c_void_p()
        self._chains = {}
        self._capacity = in_flight
        flags = (1 if interpret else 0) | (8 if kernel else 0) | (16 if auto else 0)
        options = _Options(size=ctypes.sizeof(_Options), in_flight=in_flight, max_files=max_files, memory=memory, flags=flags, spin_us=spin_us)
        result = self._lib.chainio_open(os.fsencode(artifact), ctypes.byref(options), ctypes.byref(self._handle))
        if result < 0:
            raise ChainioError(-result, self._lib.chainio_error(None).decode())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self._handle:
            self._lib.chainio_close(self._handle)
            self._handle = ctypes.c_void_p()

    def _check(self, result):
        if result < 0:
            raise ChainioError(-result, self._lib.chainio_error(self._handle).decode())
        return result

    @property
    def engine(self):
        return self._lib.chainio_describe(self._handle).decode()

    def file(self, path, file_class=None, direct=None):
        """Opens a file; `file_class` may be left out when the artifact has one. `direct` overrides what the class says."""
        number = _u64()
        flags = 0 if direct is None else 1 if direct else 2
        name = file_class.encode() if file_class is not None else None
        self._check(self._lib.chainio_file_open(self._handle, name, os.fsencode(path), flags, ctypes.byref(number)))
        return File(number.value, path)

    def close_file(self, file):
        """Closes what `file()` returned, which no chain in flight uses; another one can be opened in its place."""
        self._check(self._lib.chainio_file_close(self._handle, file.number))

    def _chain(self, name):
        if name in self._chains:
            return self._chains[name]
        number = self._check(self._lib.chainio_find_chain(self._handle, name.encode()))
        info = _ChainInfo(size=ctypes.sizeof(_ChainInfo))
        self._check(self._lib.chainio_get_chain(self._handle, number, ctypes.byref(info)))
        params = []
        for i in range(info.params):
            param = _ParamInfo(size=ctypes.sizeof(_ParamInfo))
            self._check(self._lib.chainio_get_param(self._handle, number, i, ctypes.byref(param)))
            params.append(_Param(param.name.decode(), param.kind, param.bits, bool(param.is_signed)))
        self._chains[name] = _Chain(number, params, info.result_bits, bool(info.result_signed))
        return self._chains[name]

    def _submit(self, name, values, user_data):
        chain = self._chain(name)
        unknown = set(values) - {param.name for param in chain.params}
        if unknown:
            raise TypeError(f"chain '{name}' has no parameter '{unknown.pop()}'")
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
        self._check(self._lib.chainio_submit(self._handle, chain.number, args, len(chain.params), user_data))

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
        early, or ended by an error, cancels the chains that have not ended."""
        limit = min(in_flight or self._capacity, self._capacity)
        done = (_Completion * limit)()
        waiting = {}
        try:
            yield from self._run_all(name, iter(rows), waiting, done)
        finally:
            for number in waiting if self._handle else ():
                self._lib.chainio_cancel(self._handle, number)  # of one that has ended, there is nothing to cancel
            while self._handle and waiting and self._lib.chainio_in_flight(self._handle):
                count = self._check(self._lib.chainio_reap(self._handle, done, limit, 1))
                for i in range(count):
                    waiting.pop(done[i].user_data, None)

    def _run_all(self, name, rows, waiting, done):
        limit, number = len(done), 0
        while True:
            while rows is not None and len(waiting) < limit:
                row = next(rows, None)
                if row is None:
                    rows = None
                    break
                self._submit(name, row, number)
                waiting[number] = row
                number += 1
            if not waiting:
                return
            count = self._check(self._lib.chainio_reap(self._handle, done, limit, 1))
            # The bytes of a completion live until the next reap, which the caller may bring about between two yields.
            results = [(waiting.pop(done[i].user_data), self._result(name, done[i])) for i in range(count)]
            yield from results


def open(artifact, in_flight=64, interpret=False, kernel=False, spin_us=0, auto=False, max_files=64, memory=0):
    """`kernel`: by the kernel engine, or not at all; `spin_us`: looks that long for completions before it sleeps. `auto`: by the kernel
    engine once a trial of the chains at hand has found it no worse. `max_files`: files that are open at once; `memory`: bytes for
    blocks, 0: chosen by `in_flight`."""
    return App(artifact, in_flight, interpret, kernel, spin_us, auto, max_files, memory)
