"""What finished sessions in the store cost: `python -m benchmarks.growth [--finished N]`.

Sessions live against fake agents, first in a store with few finished sessions and then in
one with many: copies of the rows of those that have ended. Printed is the processor time of
the server per session, in turns of the same size.
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from benchmarks.embedded_server import Server, server
from benchmarks.profile_life import Case, lives

SESSIONS, CALLERS, AGENTS = 1_000, 64, 300
# Tables of a session's rows, with the columns that identify it or a kernel of it.
TABLES = {
    "session_history": ("object_id",),
    "sessions": ("session_id",),
    "kernel_history": ("object_id",),
    "kernels": ("kernel_id", "session_id"),
    "held_slots": ("kernel_id",),
}
TURNS = 3
_TICKS_PER_S = 100


def processor_s(started: Server) -> float:
    """Seconds of processor time that the server's process has used."""
    fields = Path(f"/proc/{started.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def copy_finished(file: Path, *, until: int) -> int:
    """Copy the rows of finished sessions until there are `until`; returns how many there are."""
    with closing(sqlite3.connect(file, timeout=60, isolation_level=None)) as connection:
        [(before,)] = connection.execute("SELECT count(*) FROM sessions WHERE ended_ms IS NOT NULL")
        for copy in range(1, max(0, until - before) // before + 1):
            connection.execute("BEGIN IMMEDIATE")
            for table, ids in TABLES.items():
                columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
                values = ", ".join(_copied(name, ids, copy) for name in columns)
                names = ", ".join(f'"{name}"' for name in columns)
                originals = f"FROM {table} WHERE {ids[0]} NOT LIKE 'c%'"  # our own tables
                connection.execute(f"INSERT INTO {table} ({names}) SELECT {values} {originals}")
            connection.execute("COMMIT")
        [(after,)] = connection.execute("SELECT count(*) FROM sessions WHERE ended_ms IS NOT NULL")
        return int(after)


def _copied(name: str, ids: Sequence[str], copy: int) -> str:
    """The value of a column in a copy: with other ids, and submitted long before."""
    if name in ids:
        return f"'c{copy}-' || {name}"  # another first letter, so that copies are not copied again
    return f"place - {copy}000000000000" if name == "place" else f'"{name}"'


def measure(started: Server) -> float:
    """Milliseconds of processor time per session."""
    before = processor_s(started)
    asyncio.run(lives(started, Case("growth", (), SESSIONS, CALLERS, AGENTS)))
    return (processor_s(started) - before) * 1000 / SESSIONS


def main() -> int:
    """Measure with few and with many finished sessions."""
    parser = argparse.ArgumentParser(prog="benchmarks.growth", description=__doc__)
    parser.add_argument("--finished", type=int, default=100_000)
    wanted = parser.parse_args().finished
    with server("--fake", f"{AGENTS}x8", "--no-agent") as started:
        measure(started)
        few = [measure(started) for _ in range(TURNS)]
        file = Path(started.environment["XDG_DATA_HOME"]) / "sokovan" / "state.db"
        finished = copy_finished(file, until=wanted)
        many = [measure(started) for _ in range(TURNS)]
        print(f"few finished: {', '.join(f'{one:.2f}' for one in few)} ms a session, {started.memory_mb()} MB")
        print(f"{finished} finished: {', '.join(f'{one:.2f}' for one in many)} ms a session")
        print(f"ratio of the least: {min(many) / min(few):.2f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
