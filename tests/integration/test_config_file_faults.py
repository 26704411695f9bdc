"""A configuration file while its writer is killed, its disk is full, or half of it is gone."""

from __future__ import annotations

import asyncio
import random  # noqa: TID251  # when a writer is killed is jitter, from a seed that is the same in every run
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.local.toml_config import TomlConfig
from sokovan.adapters.local.toml_files import read_files
from sokovan.entrypoints.settings.live_settings import LiveSettings
from sokovan.ports.config import ConfigConflict, ConfigTree
from tests.integration.configuration_writer import state, write_on
from tests.integration.processes import Child
from tests.unit.adapters.local.little_files import put

ROOT = Path(__file__).parents[2]
KILLS = 50
SIZE = 400
LIMIT_S = 180.0

# Runs one write under a limit on the size of files, which is how a full disk looks to a writer.
WRITE_UNDER_LIMIT = """
import asyncio, resource, signal, sys
from pathlib import Path
from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.local.toml_config import TomlConfig
from sokovan.ports.config import ConfigUnavailable

async def main():
    store = TomlConfig(Path(sys.argv[1]), clock=SystemClock())
    tree = await store.read()
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
    try:
        await store.write({"big": "x" * 100_000}, expected=tree.revision)
    except ConfigUnavailable as error:
        print(error.message)
    else:
        print("written")

asyncio.run(main())
"""

WRITE_ONCE = """
import asyncio, sys
from pathlib import Path
from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.local.toml_config import TomlConfig
from sokovan.ports.config import ConfigConflict

async def main():
    store = TomlConfig(Path(sys.argv[1]), clock=SystemClock())
    tree = await store.read()
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        await store.write({"winner": int(sys.argv[2])}, expected=tree.revision)
    except ConfigConflict:
        print("lost")
    else:
        print("won")

asyncio.run(main())
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sokovan.toml"


def started(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )


def test_a_file_whose_writer_is_killed_is_the_old_one_or_the_new_one_and_never_half(path: Path) -> None:
    jitter = random.Random(20)  # noqa: S311  # jitter, not a secret
    last = unfinished = 0
    for _ in range(KILLS):
        with Child(write_on, path, SIZE) as writer:
            _wait_for_a_write(writer, path)
            _spin(jitter.randrange(5_000))
            writer.kill()
        values = read_files(path, None).tree().values
        number = values["last"]
        assert isinstance(number, int)
        assert values == state(number, SIZE)
        assert number > last
        last = number
        unfinished += _is_being_written(path)
    assert unfinished > 0, "no kill fell into a write"
    _the_next_writer_removes_what_the_killed_ones_left(path)


def _wait_for_a_write(writer: Child[None], path: Path) -> None:
    """Until the file was replaced once and the next one is being written."""
    assert writer.line.recv() == "writing"
    seen = _identity(path)
    while _identity(path) == seen or not _is_being_written(path):
        assert not writer.answer.poll(), "the writer ended by itself"


def _identity(path: Path) -> tuple[int, int]:
    try:
        return path.stat().st_ino, path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0, 0


def _is_being_written(path: Path) -> bool:
    names = [file.name for file in path.parent.iterdir()]
    return any(name.startswith(f".{path.name}.") and name.endswith(".new") and ".bak." not in name for name in names)


def _spin(rounds: int) -> None:
    """Some microseconds, so that each kill falls into another part of a write."""
    for _ in range(rounds):
        pass


def _the_next_writer_removes_what_the_killed_ones_left(path: Path) -> None:
    async def write() -> None:
        store = TomlConfig(path, clock=SystemClock())
        await store.write({"done": True}, expected=(await store.read()).revision)

    asyncio.run(write())
    left = sorted(file.name for file in path.parent.iterdir())
    assert left == [".sokovan.toml.lock", "sokovan.toml", "sokovan.toml.bak"]


@pytest.mark.parametrize("limit", [0, 1, 4096, 50_000])
def test_a_full_disk_leaves_the_old_file_and_says_so(path: Path, limit: int) -> None:
    old = "# precious\n[scheduler]\nbatch_max = 20\n"
    put(path, old)
    writer = started("-c", WRITE_UNDER_LIMIT, str(path), str(limit))
    output, _ = writer.communicate(timeout=LIMIT_S)
    assert output == f"cannot write {path}: File too large\n"
    assert path.read_text() == old
    assert [file.name for file in path.parent.iterdir() if file.name.endswith(".new")] == []


def test_of_many_processes_that_write_at_once_exactly_one_wins(path: Path) -> None:
    put(path, "")
    writers = [started("-c", WRITE_ONCE, str(path), str(number)) for number in range(6)]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    outputs = [writer.communicate(timeout=LIMIT_S)[0].strip() for writer in writers]
    assert sorted(outputs) == ["lost"] * 5 + ["won"]
    assert read_files(path, None).tree().values == {"winner": outputs.index("won")}


@pytest.fixture
async def live(path: Path) -> AsyncIterator[LiveSettings]:
    put(path, "[scheduler]\nbatch_max = 33\n\n[scaling_groups.gpu]\nscheduler = 'drf'\n")
    store = TomlConfig(path, clock=SystemClock(), poll_s=0.005)
    live = LiveSettings(store, clock=SystemClock())
    await live.start_from(None)
    following = asyncio.ensure_future(live.follow())
    yield live
    await store.close()
    await following


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not holds():
            await SystemClock().sleep(0.001)


async def test_a_truncated_file_is_refused_with_its_line_and_the_settings_stay(live: LiveSettings, path: Path) -> None:
    put(path, "[scheduler]\nbatch_max = 33\n\n[scaling_groups.gp")
    await until(lambda: live.refusal)
    assert live.refusal is not None
    assert live.refusal.text.startswith(f"{path}:4:19: ")
    assert live.current.scheduler.batch_max == 33
    assert live.current.scaling_groups.keys() == {"gpu"}


async def test_every_cut_of_a_file_leaves_settings_that_are_whole(live: LiveSettings, path: Path) -> None:
    text = "[scheduler]\nbatch_max = 44\n\n[orchestrator]\nagent_lost_s = 99\n"
    for length in range(0, len(text), 7):
        put(path, text[:length])
        await SystemClock().sleep(0)
        assert live.current.scheduler.batch_max in {33, 44, 100, 4}
    put(path, text)
    await until(lambda: live.current.orchestrator.agent_lost_s == 99)
    assert live.refusal is None


async def test_a_writer_that_reads_a_file_in_the_middle_of_an_edit_overwrites_nothing(path: Path) -> None:
    store = TomlConfig(path, clock=SystemClock())
    tree = await store.read()
    put(path, "[scheduler]\nbatch_max = 3")
    with pytest.raises(ConfigConflict):
        await store.write({"a": 1}, expected=tree.revision)
    assert isinstance(await store.read(), ConfigTree)
