"""The database of a million rows that quickstart and the lookup benchmark read, made by the real sqlite3."""
import pathlib
import tempfile

from common import WORK, Trouble, output_of, progress

ROWS = 1_000_000
SQL = """
PRAGMA page_size = 4096; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;
CREATE TABLE kv(id INTEGER PRIMARY KEY, value TEXT NOT NULL);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
INSERT INTO kv SELECT i, printf('%016x-%0*d', i * 2654435761 % 4294967296, 40 + i % 80, i) FROM n;
"""


def database(rows=ROWS):
    """The path of the database; made when it is not there yet, and on the disk when this returns."""
    path = WORK / f"kv-{rows}.db"
    if path.exists():
        return path
    WORK.mkdir(parents=True, exist_ok=True)
    progress(f"sqlite3 makes a database of {rows:,} rows …")
    with tempfile.TemporaryDirectory(dir=WORK) as folder:  # somebody else may be at it as well
        half_made = pathlib.Path(folder) / path.name
        output_of(["sqlite3", half_made], input=SQL.format(rows=rows))
        output_of(["sync", "-f", half_made])
        half_made.rename(path)
    progress("")
    return path


def facts(path):
    """(root page of kv, page size, rows, pages)"""
    sql = "SELECT rootpage FROM sqlite_schema WHERE name = 'kv'; PRAGMA page_size; SELECT max(id) FROM kv; PRAGMA page_count;"
    words = output_of(["sqlite3", "-readonly", path, sql]).split()
    if len(words) != 4:
        raise Trouble(f"{path} is not the database that tools/bench makes; delete it")
    return tuple(int(word) for word in words)
