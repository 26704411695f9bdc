"""A journal says after any crash what it had promised before."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sokovan.agent import journal as journal_module
from sokovan.agent.journal import HEADER, Journal, JournalDamaged, JournalInUse, JournalUnwritable
from sokovan.agent.journal_records import (
    IncarnationTaken,
    JournalRecord,
    JournalState,
    KernelEntombed,
    KernelForgotten,
    KernelRequested,
    KernelStarted,
    replayed,
)
from tests.unit.agent.supervisor_harness import key

BATCHES: list[list[JournalRecord]] = [
    [IncarnationTaken(4)],
    [KernelRequested(key("a"), {"cpu": 1000}, {"cuda.device": ("gpu0",)}, "b1")],
    [KernelStarted(key("a")), KernelRequested(key("b", 2), {"cpu": 500})],
    [KernelEntombed(key("a"), 4, 137)],
]


@contextmanager
def opened(path: Path) -> Iterator[Journal]:
    journal = Journal.open(path)
    try:
        yield journal
    finally:
        journal.close()


def written(path: Path) -> JournalState:
    memory = JournalState()
    with opened(path) as journal:
        for batch in BATCHES:
            journal.append(batch)
            memory = replayed(memory, batch)
        assert journal.state == memory
    return memory


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent" / "journal"


def test_a_journal_is_read_as_it_was_written(path: Path) -> None:
    memory = written(path)

    with opened(path) as journal:
        assert journal.state == memory


def test_a_new_journal_is_empty_and_private(path: Path) -> None:
    with opened(path) as journal:
        assert journal.state == JournalState()
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.slow
def test_wherever_a_crash_cuts_the_file_whole_lines_count_and_torn_ones_do_not(path: Path) -> None:
    written(path)
    content = path.read_bytes()
    ends = [at + 1 for at, byte in enumerate(content) if byte == ord("\n")]
    for cut in range(len(HEADER), len(content) + 1):
        path.write_bytes(content[:cut])
        whole = sum(end <= cut for end in ends) - 1
        with opened(path) as journal:
            assert journal.state == replayed(JournalState(), [record for batch in BATCHES[:whole] for record in batch])
            journal.append([IncarnationTaken(9)])
        with opened(path) as journal:
            assert journal.state.incarnation == 9, "what is written after a torn line is read"


def test_a_last_line_of_rubbish_is_cut_off(path: Path) -> None:
    memory = written(path)
    with path.open("ab") as file:
        file.write(b"\0" * 5000 + b"\n")

    with opened(path) as journal:
        assert journal.state == memory


def test_a_broken_line_before_good_ones_is_not_passed_over_in_silence(path: Path) -> None:
    written(path)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = lines[2].replace(b"1000", b"9000")
    path.write_bytes(b"".join(lines))

    with pytest.raises(JournalDamaged, match="line 3"):
        Journal.open(path)
    path.write_bytes(b"something else\n")
    with pytest.raises(JournalDamaged, match="does not have the header"):
        Journal.open(path)


def test_two_agents_cannot_share_a_journal(path: Path) -> None:
    with opened(path), pytest.raises(JournalInUse):
        Journal.open(path)
    with opened(path):
        pass


@pytest.mark.slow
def test_a_journal_that_has_grown_is_written_anew_and_says_the_same(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "COMPACT_BYTES", 4096)
    with opened(path) as journal:
        for number in range(2000):
            journal.append([KernelRequested(key("k", number), {"cpu": 1}), KernelEntombed(key("k", number), 1)])
            if number > 5:
                journal.append([KernelForgotten(key("k", number - 5))])
        memory = journal.state
        assert path.stat().st_size < 2000 * 200
    with opened(path) as journal:
        assert journal.state == memory


def test_an_empty_append_touches_nothing(path: Path) -> None:
    with opened(path) as journal:
        journal.append([])
        assert path.read_bytes() == HEADER


def test_what_matters_until_the_machine_restarts_is_written_and_synced_with_what_matters_longer(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, synced = os.fsync, list[int]()

    def counted(handle: int) -> None:
        synced.append(handle)
        real(handle)

    with opened(path) as journal:
        journal.append([KernelRequested(key("a"), {"cpu": 1})])
        monkeypatch.setattr(os, "fsync", counted)
        journal.append([KernelStarted(key("a"), "traces")])
        assert synced == []
        content = path.read_bytes()
        journal.append([KernelStarted(key("a")), KernelEntombed(key("a"), 1)])
        assert len(synced) == 1
    assert b"traces" in content, "another process would not read it"


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_a_record_that_could_not_be_written_does_not_count_and_the_next_one_does(
    path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    written(path)
    with opened(path) as journal:
        before = journal.state
        with monkeypatch.context() as broken:
            real = getattr(os, call)

            def full(*arguments: object) -> int:
                if call == "write":  # half of it, as a full disk does
                    handle, content = arguments
                    real(handle, bytes(content)[:10])  # type: ignore[call-overload]  # bytes-like in, bytes out
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

            broken.setattr(os, call, full)
            with pytest.raises(JournalUnwritable, match="No space"):
                journal.append([IncarnationTaken(8)])
        assert journal.state == before
        journal.append([KernelEntombed(key("z"), 4)])
        assert journal.state.incarnation == 4
        after = journal.state
    with opened(path) as journal:
        assert journal.state == after


def test_a_journal_on_a_disk_that_stays_full_goes_on_refusing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(path) as journal:
        journal.append([IncarnationTaken(1)])

        def full(*_arguments: object) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with monkeypatch.context() as broken:
            broken.setattr(os, "write", full)
            for _ in range(3):
                with pytest.raises(JournalUnwritable):
                    journal.append([IncarnationTaken(2)])
        journal.append([IncarnationTaken(3)])
    with opened(path) as journal:
        assert journal.state.incarnation == 3
    assert not list(path.parent.glob(".*.new"))


WRITER = """
import sys
from pathlib import Path
from sokovan.agent import journal
from sokovan.agent.journal_records import KernelRequested, KernelEntombed, KernelForgotten, KernelKey
journal.COMPACT_BYTES = 2048
opened = journal.Journal.open(Path(sys.argv[1]))
number = max((known.attempt for known in opened.state.tombstones), default=0)
while True:
    number += 1
    key = KernelKey("k", number)
    opened.append([KernelRequested(key, {"cpu": 1})])
    opened.append([KernelEntombed(key, 1), KernelForgotten(key)])
    sys.stdout.write(f"{number}\\n")
    sys.stdout.flush()
"""


@pytest.mark.slow
def test_acknowledged_records_survive_a_kill(path: Path) -> None:
    acknowledged = 0
    for lines in (1, 7, 23, 50, 90):
        with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            for _ in range(lines):
                acknowledged = int(writer.stdout.readline())
            writer.send_signal(signal.SIGKILL)
            rest = writer.stdout.read().splitlines()
            acknowledged = int(rest[-1]) if rest else acknowledged
        with opened(path) as journal:
            attempts = sorted(known.attempt for known in journal.state.tombstones)
            assert attempts == list(range(1, len(attempts) + 1))
            assert len(attempts) >= acknowledged
