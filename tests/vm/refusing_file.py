"""A file whose reads are refused at first."""
import collections
import contextlib
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e" / "support"))
from fuse_file import fuse_file  # noqa: E402


@contextlib.contextmanager
def refusing_file(path, content, error, times):
    """`path` holds `content` meanwhile; the first reads at each place of it, so many, end with the error."""
    refused = collections.Counter()

    def error_of(place):
        refused[place] += 1
        return error if refused[place] <= times else 0

    with fuse_file(path, content, error_of, direct=True):
        yield
