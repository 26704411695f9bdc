"""A log keeps its newest output within its limit, also when writes fail."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sokovan.adapters.process.shim import log_ring as module
from sokovan.adapters.process.shim.log_ring import Ring, read_from, segments

LIMIT = 32 << 10

# Writes until a limit on the size of files refuses, which is how a full disk looks to a writer.
FULL = """
import os, resource, sys
from sokovan.adapters.process.shim.log_ring import Ring
folder = os.open(sys.argv[1], os.O_RDONLY)
ring = Ring(folder, 1 << 20)
ring.write(b"a" * 1000)
resource.setrlimit(resource.RLIMIT_FSIZE, (1500, resource.RLIM_INFINITY))
ring.write(b"b" * 1000)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
ring.write(b"c" * 1000)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
ring.write(b"d" * 1000)
print(ring.offset, ring.dropped)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    handle = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield handle
    os.close(handle)


def everything(folder: int, offset: int = 0) -> tuple[int, bytes]:
    first: int | None = None
    pieces: list[bytes] = []
    while True:
        at, piece, _ = read_from(folder, offset, 1000)
        first = at if first is None else first
        if not piece:
            return first, b"".join(pieces)
        pieces.append(piece)
        offset = at + len(piece)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=st.lists(st.integers(0, 20_000), max_size=20))
def test_what_is_kept_is_the_end_of_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int]
) -> None:
    place = tmp_path_factory.mktemp("ring")
    folder = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    ring = Ring(folder, LIMIT)
    written = b"".join(bytes([number % 251]) * size for number, size in enumerate(sizes))
    for number, size in enumerate(sizes):
        ring.write(bytes([number % 251]) * size)
        assert sum(file.stat().st_size for file in place.iterdir()) <= LIMIT
    ring.close()
    first, kept = everything(folder)
    os.close(folder)
    assert ring.offset == first + len(kept) == len(written)
    assert kept == written[first:]
    assert len(kept) >= min(len(written), LIMIT - LIMIT // 4)


def test_an_offset_that_was_dropped_moves_forward_and_one_ahead_stays(folder: int) -> None:
    ring = Ring(folder, LIMIT)
    ring.write(b"x" * (3 * LIMIT))
    ring.close()
    first, kept = everything(folder)
    assert first > 0
    assert read_from(folder, first + 5, 10) == (first + 5, b"x" * 10, 3 * LIMIT)
    assert read_from(folder, 10 * LIMIT, 10) == (10 * LIMIT, b"", 3 * LIMIT)
    assert first + len(kept) == 3 * LIMIT


def test_a_tiny_limit_keeps_something(folder: int, tmp_path: Path) -> None:
    ring = Ring(folder, 1)
    ring.write(b"x" * 100_000)
    ring.close()
    assert len(list(tmp_path.iterdir())) == 1
    assert everything(folder)[1]


def test_what_a_full_disk_refuses_is_dropped_and_counted(folder: int, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout == "4000 1500\n"
    assert everything(folder) == (0, b"a" * 1000 + b"b" * 500 + b"d" * 1000)
    assert segments(folder) == [0, 3000]
    assert read_from(folder, 2000, 10) == (3000, b"d" * 10, 4000)


def test_strange_files_are_not_taken_for_segments(folder: int, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("x")
    (tmp_path / "5").write_text("x")
    (tmp_path / module.segment_name(0)).symlink_to("notes")
    os.mkfifo(tmp_path / module.segment_name(5))
    assert read_from(folder, 0, 10) == (0, b"", 0)
