"""Copies of output: divided into pieces, gone on with, and never doubled."""

from __future__ import annotations

from pathlib import Path

import pytest

from sokovan.adapters.docker.log_copy import FrameReader, LogCopy, timed
from sokovan.adapters.process.layout import opened
from sokovan.adapters.process.shim.log_ring import read_from
from tests.unit.adapters.docker.canned_engine import CannedEngine, canned_engine, frame

LOGS = "GET /containers/c/logs"
ENDED = {"GET /containers/c/json": (200, {"State": {"Running": False}})}


def test_pieces_are_complete_however_the_stream_is_cut() -> None:
    stream = frame(b"one\n") + frame(b"", stream=2) + frame(b"two")
    for size in (1, 7, 1000):
        reader = FrameReader()
        parts = [stream[at : at + size] for at in range(0, len(stream), size)]
        assert [timed(piece)[1] for part in parts for piece in reader.frames(part)] == [b"one\n", b"", b"two"]


def test_a_piece_without_bound_is_refused() -> None:
    with pytest.raises(ValueError, match="bytes"):
        list(FrameReader().frames(b"\1\0\0\0\xff\xff\xff\xff"))


def test_the_time_of_a_piece_has_nine_digits() -> None:
    assert timed(b"1970-01-01T00:00:01.5Z a b") == ("1.500000000", b"a b")
    assert timed(b"1970-01-01T01:00:01+01:00 ") == ("1.000000000", b"")
    assert timed(b"no time") == ("", b"no time")


async def copied(engine: CannedEngine, folder: Path) -> bytes:
    """Copy what the engine has; the whole log then."""
    await LogCopy(engine.client, "c", folder, 1 << 20).run()
    whole = b""
    with opened(folder / "log") as log:
        while piece := read_from(log, len(whole), 1 << 20)[1]:
            whole += piece
    return whole


async def test_a_copy_goes_on_where_the_last_one_stopped(tmp_path: Path) -> None:
    same, later = "2026-01-01T00:00:00.000000001Z", "2026-01-01T00:00:02Z"
    first = frame(b"one\n", same) + frame(b"two\n", same)
    async with canned_engine({**ENDED, LOGS: (200, first)}) as engine:
        assert await copied(engine, tmp_path) == b"one\ntwo\n"
        engine.answers[LOGS] = (200, first + frame(b"three\n", same) + frame(b"four\n", later))
        assert await copied(engine, tmp_path) == b"one\ntwo\nthree\nfour\n"
        assert "since=1767225600.000000001" in engine.asked[-1]


async def test_what_was_written_before_its_note_is_not_written_again(tmp_path: Path) -> None:
    async with canned_engine({**ENDED, LOGS: (200, frame(b"one\ntwo\n"))}) as engine:
        await copied(engine, tmp_path)
        (tmp_path / "log.json").unlink()  # as if it was killed before it noted how far it is
        assert await copied(engine, tmp_path) == b"one\ntwo\n"
