"""The end of a kernel is signalled at once, but only to a waiting caller."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.process.exit_watcher import ExitWatcher
from sokovan.adapters.process.layout import folder_name, opened
from sokovan.adapters.process.shim.processes import Process, look_up
from sokovan.adapters.process.shim.state_files import read_record
from sokovan.domain.ids import KernelId
from sokovan.ports.runtime import KernelState
from tests.kernels import SLEEP, launch, place, runtime_in, seen

LIMIT_S = 60.0
NAME = folder_name(KernelId("k"), 1)


async def test_an_end_is_signalled_after_it_is_recorded(tmp_path: Path) -> None:
    async with runtime_in(tmp_path) as runtime:
        await runtime.create(launch("k", "import os\nwhile not os.path.exists('go'): pass"))
        await runtime.create(launch("other", SLEEP))
        told = asyncio.ensure_future(runtime.changes())
        await SystemClock().sleep(0)
        await runtime.observe()
        (place(tmp_path, "k") / "work" / "go").touch()
        await asyncio.wait_for(told, LIMIT_S)
        assert (await seen(runtime, "k")).state is KernelState.EXITED
        assert (await seen(runtime, "other")).state is KernelState.RUNNING
        waiting = asyncio.ensure_future(runtime.changes())
        await asyncio.wait({waiting}, timeout=0.2)
        assert not waiting.done(), "one end is told once"
        await runtime.stop(KernelId("other"), 1, grace_s=0)
        await asyncio.wait_for(waiting, LIMIT_S)
        assert (await seen(runtime, "other")).state is KernelState.EXITED
        await given_up(runtime.changes())


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def given_up(waiting: Coroutine[Any, Any, None]) -> None:
    task = asyncio.ensure_future(waiting)
    await SystemClock().sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_killed_shim_is_signalled_too(tmp_path: Path) -> None:
    async with runtime_in(tmp_path) as runtime:
        await runtime.create(launch("k", SLEEP))
        told = asyncio.ensure_future(runtime.changes())
        await SystemClock().sleep(0)
        await runtime.observe()
        with opened(place(tmp_path, "k")) as folder:
            record = read_record(folder, "state.json")
        assert record is not None
        os.kill(record["shim_pid"], signal.SIGKILL)
        await asyncio.wait_for(told, LIMIT_S)
        assert (await seen(runtime, "k")).reason == "shim lost"
        await given_up(runtime.changes())


async def test_nothing_is_watched_without_a_waiter(tmp_path: Path) -> None:
    async with runtime_in(tmp_path) as runtime:
        await runtime.create(launch("k", SLEEP))
        before = open_files()
        await runtime.observe()
        assert open_files() == before


async def test_who_gives_up_leaves_no_lines_behind(tmp_path: Path) -> None:
    async with runtime_in(tmp_path) as runtime:
        await runtime.create(launch("k", SLEEP))
        before = open_files()
        told = asyncio.ensure_future(runtime.changes())
        await SystemClock().sleep(0)
        await runtime.observe()
        assert open_files() == before + 1
        told.cancel()
        await asyncio.gather(told, return_exceptions=True)
        assert open_files() == before


async def test_a_kernel_that_ends_before_it_is_watched_is_signalled_once() -> None:
    shims: dict[str, Process] = {}
    ends = ExitWatcher(shims.get)
    told = asyncio.ensure_future(ends.next())
    await SystemClock().sleep(0)
    ends.follow([NAME], before=())
    await asyncio.wait_for(told, LIMIT_S)
    again = asyncio.ensure_future(ends.next())
    await SystemClock().sleep(0)
    ends.follow([NAME], before=())
    await SystemClock().sleep(0)
    assert not again.done(), "one that stays as it is would be looked at without end"
    again.cancel()
    await asyncio.gather(again, return_exceptions=True)


async def test_a_kernel_is_watched_from_its_start_on_and_its_end_observed_by_itself(tmp_path: Path) -> None:
    async with runtime_in(tmp_path) as runtime:
        told = asyncio.ensure_future(runtime.changes())
        await SystemClock().sleep(0)
        await runtime.create(launch("k", "raise SystemExit(3)"))
        await runtime.create(launch("other", SLEEP))
        await asyncio.wait_for(told, LIMIT_S)
        [found] = await runtime.ended()
        assert (found.kernel_id, found.state, found.exit_code) == ("k", KernelState.EXITED, 3)
        assert await runtime.ended() == []
        await given_up(runtime.changes())


async def test_ends_that_a_listing_shows_are_not_observed_once_more(tmp_path: Path) -> None:
    async with runtime_in(tmp_path) as runtime:
        told = asyncio.ensure_future(runtime.changes())
        await SystemClock().sleep(0)
        await runtime.create(launch("k", "pass"))
        await asyncio.wait_for(told, LIMIT_S)
        assert (await seen(runtime, "k")).state is KernelState.EXITED
        assert await runtime.ended() == []
        await given_up(runtime.changes())


async def test_a_kernel_that_starts_during_a_listing_stays_watched() -> None:
    own = look_up(os.getpid())
    assert own is not None
    ends = ExitWatcher({"old": own, "listed": own}.get)
    waiting = asyncio.ensure_future(ends.next())
    await SystemClock().sleep(0)
    ends.follow(["old", "listed"], before=())
    before = ends.followed()
    ends.follow_started("fresh", json.dumps({"shim_pid": own.pid, "shim_start": own.start}))
    ends.follow(["listed"], before=before)
    assert ends.followed() == {"listed", "fresh"}
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert ends.followed() == set()


async def test_a_shim_whose_number_another_process_has_by_now_has_ended() -> None:
    own = look_up(os.getpid())
    assert own is not None
    none: dict[str, Process] = {}
    ends = ExitWatcher(none.get)
    waiting = asyncio.ensure_future(ends.next())
    await SystemClock().sleep(0)
    ends.follow_started(NAME, json.dumps({"shim_pid": own.pid, "shim_start": own.start - 1}))
    await asyncio.wait_for(waiting, LIMIT_S)
    assert (ends.taken(), ends.taken()) == ([NAME], [])
    ends.close()
