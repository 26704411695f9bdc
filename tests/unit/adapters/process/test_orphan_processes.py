"""Orphan processes of a kernel are found by their marks, and no others are touched."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from sokovan.adapters.process.orphan_processes import OrphanProcesses, groups_of, strays, traces_of
from sokovan.adapters.process.shim import processes
from sokovan.adapters.process.shim.control_groups import ControlGroups

MARKS = {"SOKOVAN_KERNEL_ID": f"test-{os.getpid()}", "SOKOVAN_ATTEMPT": "1"}
WAITS = "import sys; print('up', flush=True); sys.stdin.read()"
FORKS = "import os, sys; os.fork(); print('up', flush=True); sys.stdin.read()"


@contextmanager
def process(
    script: str = WAITS, *, variables: Mapping[str, str] | None = None, session: bool = False
) -> Iterator[processes.Process]:
    with subprocess.Popen(
        [sys.executable, "-I", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=dict(variables or {}),
        start_new_session=session,
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        found = processes.look_up(child.pid)
        assert found is not None
        try:
            yield found
        finally:
            child.kill()


def remains(**state: object) -> OrphanProcesses:
    return OrphanProcesses(MARKS, groups=ControlGroups(0, {}), state=state)


def numbers(found: list[processes.Process]) -> set[int]:
    return {one.pid for one in found}


@pytest.mark.slow
def test_a_process_is_found_by_all_its_variables_and_so_are_its_children() -> None:
    with process(variables=MARKS) as own, process(variables={**MARKS, "SOKOVAN_ATTEMPT": "2"}), process():
        assert numbers(remains().found()) == {own.pid}
        assert remains().end() == []
        assert not processes.is_alive(own.pid, own.start)


@pytest.mark.slow
def test_a_process_is_found_by_its_session_while_the_leader_is_the_same() -> None:
    with process(FORKS, session=True) as leader:
        assert leader.pid in numbers(remains(pid=leader.pid, pid_start=leader.start).found())
        assert remains(pid=leader.pid, pid_start=leader.start - 1).found() == []
        assert remains(pid=leader.pid, pid_start=leader.start).end() == []


def test_a_process_is_found_by_its_output_pipe() -> None:
    with process() as speaker:
        pipe = Path(f"/proc/{speaker.pid}/fd/1").readlink()
        inode = int(str(pipe).removeprefix("pipe:[").removesuffix("]"))
        assert numbers(remains(pipe=inode).found()) == {speaker.pid}


def test_a_process_is_found_by_its_control_group(tmp_path: Path) -> None:
    with process() as member:
        (tmp_path / "cgroup.procs").write_text(f"{member.pid}\n")
        groups = ControlGroups(1, {"pids": str(tmp_path)})
        assert numbers(OrphanProcesses(MARKS, groups=groups, state={}).found()) == {member.pid}


def test_a_shim_that_lives_is_among_what_remains_of_a_start_that_was_given_up() -> None:
    with process() as shim:
        assert remains(shim_pid=shim.pid, shim_start=shim.start - 1).found() == []
        assert numbers(remains(shim_pid=shim.pid, shim_start=shim.start).found()) == {shim.pid}
        assert remains(shim_pid=shim.pid, shim_start=shim.start).end() == []


@pytest.mark.slow
def test_a_stray_of_a_kernel_is_found_by_its_limits_alone() -> None:
    limit = f"import resource; resource.setrlimit({processes.MARK_LIMIT}, (0, 0)); "
    with process(limit + WAITS) as stray, process() as other:
        assert remains().end() == []
        assert not processes.is_alive(stray.pid, stray.start)
        assert processes.is_alive(other.pid, other.start)


def test_a_kernel_below_a_shim_is_no_stray() -> None:
    below = f"""
import os, resource, subprocess, sys
"sokovan.adapters.process.shim.main"
if not os.fork():
    resource.setrlimit({processes.MARK_LIMIT}, (0, 0))
    print("up", flush=True)
sys.stdin.read()
"""
    with process(below) as shim:
        assert numbers(strays()) & {shim.pid, *(one.pid for one in processes.descendants(shim.pid))} == set()


def test_nothing_is_found_where_nothing_is_left() -> None:
    assert remains(pid=2**22 + 1, pid_start=1, pipe=1).end() == []


GROUPS = {"groups": {"version": 2, "folders": {"pids": "/nowhere/k-1"}}}


def test_traces_name_the_shim_and_the_groups_and_nothing_else() -> None:
    state = {"boot": "b", "shim_pid": 7, "shim_start": 8, "pipe": 9, "reason": "x", "stopping_ms": 5}

    assert traces_of(GROUPS, state) == (
        '{"boot": "b", "shim_pid": 7, "shim_start": 8, "pipe": 9,'
        ' "groups": {"version": 2, "folders": {"pids": "/nowhere/k-1"}}}'
    )
    assert groups_of(GROUPS).folders == {"pids": "/nowhere/k-1"}
    assert groups_of({}).folders == {}
