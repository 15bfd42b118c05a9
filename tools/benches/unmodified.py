"""unmodified programs under `chainio run`: cold, warm and ours in one run, on the local disk and on an emulated cloud volume

Each program's rows are in a file of its own; one whose program is not installed is named and left out. Cold files are dropped by
posix_fadvise before each run; who runs first turns around from round to round. CHAINIO_BENCH_SECTIONS=sqlite,nginx and
CHAINIO_BENCH_VOLUMES=local,cloud choose.
"""
import os

import unmodified_cached
import unmodified_calls
import unmodified_clickhouse
import unmodified_nginx
import unmodified_postgresql
import unmodified_rocksdb
import unmodified_sqlite
import unmodified_start
from common import Result, Trouble, build, progress
from unmodified_common import folder, load
from volumes import Cloud, describe, is_cloud, measure

SECTIONS = {section.name: section for section in (unmodified_sqlite.Sqlite, unmodified_nginx.Nginx, unmodified_rocksdb.RocksDb,
                                                  unmodified_clickhouse.ClickHouse, unmodified_postgresql.PostgreSql, unmodified_cached.Redis,
                                                  unmodified_cached.Memcached, unmodified_start.Start, unmodified_calls.Calls)}


def chosen(variable, names):
    wanted = os.environ.get(variable)
    if wanted is None:
        return list(names)
    unknown = [name for name in wanted.split(",") if name not in names]
    if unknown:
        raise Trouble(f"{variable} names {', '.join(map(repr, unknown))}; there are {', '.join(names)}, with a comma between them")
    return [name for name in names if name in wanted.split(",")]


def on_volume(volume, path, sections, quick, notes):
    """Their rows of this volume, which are not valid unless what fio reads is what the volume should give."""
    file = folder("unmodified/sources") / "fio.bin"
    if not file.exists():
        file.write_bytes(os.urandom(1 << 26))
    found = measure(path / "sources" / file.name, 1 if quick else 3)
    notes.append(describe(volume, found))
    slow = volume == "cloud" and not is_cloud(found)
    if slow and any(section.of_volume for section, _ in sections):
        notes.append("the cloud volume was not as quick as it should be: its rows are invalid")
    for section, where in sections:
        before = len(section.rows)
        section.run(volume, path / where.relative_to(folder("unmodified")))
        for row in section.rows[before:]:
            row.valid = row.valid and not (slow and section.of_volume)
    progress("")


def run(quick):
    names, volumes = chosen("CHAINIO_BENCH_SECTIONS", SECTIONS), chosen("CHAINIO_BENCH_VOLUMES", ("local", "cloud"))
    build("chainc", "chainio", "chainio_shim", "bench_replay", "bench_ahead", "bench_http_load")
    notes, sections = [load()], []
    for name in names:
        section = SECTIONS[name](quick)
        reason = section.missing()
        if reason:
            notes.append(f"{name}: skipped: {reason}")
        else:
            sections.append((section, section.sources()))
    if "local" in volumes:
        on_volume("local", folder("unmodified"), sections, quick, notes)
    if "cloud" in volumes:
        try:
            with Cloud(folder("unmodified")) as cloud:
                on_volume("cloud", cloud.path, sections, quick, notes)
        except Trouble as trouble:
            notes.append(f"cloud: skipped: {trouble}")
    for section, _ in sections:
        notes += section.notes
    rows = [row for section, _ in sections for row in section.rows]
    if not rows:
        notes.append("nothing was measured")
    return Result("unmodified", bool(rows) and all(section.correct for section, _ in sections), rows, [*notes, ""])
