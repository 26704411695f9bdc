"""The shim itself: light, quick to start, and true to what it says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from shutil import rmtree
from types import SimpleNamespace

import pytest

import sokovan
from sokovan.adapters.process.layout import opened
from sokovan.adapters.process.runtime import ProcessRuntime
from sokovan.adapters.process.shim import main, processes
from sokovan.adapters.process.shim.control_groups import ControlGroups
from sokovan.adapters.process.shim.state_files import read_record
from sokovan.adapters.process.shim_client import connected
from sokovan.ports import runtime as runtime_port
from tests.kernels import SLEEP, ended, launch, place, runtime_in, said, until

HEAVY = {"typing", "dataclasses", "pathlib", "asyncio", "subprocess", "inspect", "logging", "urllib", "threading"}


def record(root: Path, name: str) -> dict[str, int]:
    with opened(place(root, name)) as folder:
        found = read_record(folder, "state.json")
    assert found is not None
    return found


def test_the_shim_imports_little() -> None:
    script = "import sys; sys.path.append(sys.argv[1]); import sokovan.adapters.process.shim.main; print(*sys.modules)"
    root = str(Path(sokovan.__file__).parent.parent)
    done = subprocess.run([sys.executable, "-I", "-S", "-c", script, root], capture_output=True, text=True, check=True)
    assert HEAVY & set(done.stdout.split()) == set()


async def test_a_shim_needs_little_memory(tmp_path: Path) -> None:
    async with runtime_in(tmp_path / "root") as runtime:
        await runtime.create(launch("k", SLEEP))
        lines = _status(record(tmp_path / "root", "k")["shim_pid"])
        assert int(lines["VmRSS"].split()[0]) < 16 << 10


def _status(pid: int) -> dict[str, str]:
    return dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())


async def test_a_shim_has_no_parent_and_no_terminal(tmp_path: Path) -> None:
    async with runtime_in(tmp_path / "root") as runtime:
        await runtime.create(launch("k", SLEEP))
        found = record(tmp_path / "root", "k")
        own = _status(found["shim_pid"])
        assert _status(found["pid"])["PPid"].strip() == str(found["shim_pid"])
        assert own["Threads"].strip() == "1"


async def test_a_shim_refuses_what_it_does_not_know(tmp_path: Path) -> None:
    async with runtime_in(tmp_path / "root") as runtime:
        await runtime.create(launch("k", SLEEP))
        answers = _asked(tmp_path / "root", [b'{"do": "dance"}', b"nonsense", b'{"do": "stop"}', b'{"do": "run"}'])
        assert all(answer.startswith(b'{"error"') for answer in answers), answers
        assert await _runs(runtime)


def _asked(root: Path, messages: list[bytes]) -> list[bytes]:
    answers = []
    for message in messages:
        with connected(place(root, "k")) as line:
            line.send(message)
            answers.append(line.recv(1000))
    return answers


async def _runs(runtime: ProcessRuntime) -> bool:
    [found] = await runtime.observe()
    return found.state.value == "running"


async def test_a_signal_reaches_the_kernel_itself(tmp_path: Path) -> None:
    async with runtime_in(tmp_path / "root") as runtime:
        await runtime.create(launch("k", SLEEP))
        _asked(tmp_path / "root", [b'{"do": "signal", "number": 10}'])
        assert (await ended(runtime, "k")).exit_code == 138


async def test_a_shim_ends_if_its_folder_was_removed(tmp_path: Path) -> None:
    async with runtime_in(tmp_path / "root") as runtime:
        await runtime.create(launch("k", SLEEP))
        found = record(tmp_path / "root", "k")
        await said(runtime, "k", b"up\n")
        rmtree(place(tmp_path / "root", "k"))
        processes.kill_below(found["shim_pid"])

        async def is_gone() -> bool:
            return not processes.is_alive(found["shim_pid"], found["shim_start"])

        await until(is_gone)


def test_the_shim_says_what_the_port_says_of_memory_that_ran_out() -> None:
    assert main.OUT_OF_MEMORY == runtime_port.OUT_OF_MEMORY


def test_all_processes_are_read_only_if_the_shim_has_children(monkeypatch: pytest.MonkeyPatch) -> None:
    shim = main.Shim.__new__(main.Shim)
    shim.groups, reads = ControlGroups(0, {}), list[int]()

    def descendants(pid: int) -> list[processes.Process]:
        reads.append(pid)
        return []

    monkeypatch.setattr(processes, "children", lambda _pid: [])
    monkeypatch.setattr(processes, "descendants", descendants)
    shim.childless = True
    assert (shim._members(), reads) == ([], [])
    shim.childless = False
    assert shim._members() == []
    assert len(reads) == 1


@pytest.mark.parametrize(("sandboxed", "ago_s", "scans"), [(True, 0.0, False), (True, 1.0, True), (False, 0.0, True)])
def test_what_a_sandbox_leaves_is_waited_for_before_all_processes_are_read(
    sandboxed: bool,
    ago_s: float,
    scans: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shim = main.Shim.__new__(main.Shim)
    shim.groups, shim.sandboxed, shim.has_notice, shim.childless = ControlGroups(0, {}), sandboxed, False, False
    shim.status, shim.ended_s, shim.deadline, shim.ending_since = 0, 100.0 - ago_s, None, None
    reads = list[int]()

    def descendants(pid: int) -> list[processes.Process]:
        reads.append(pid)
        return []

    monkeypatch.setattr(main, "time", SimpleNamespace(monotonic=lambda: 100.0))
    monkeypatch.setattr(processes, "descendants", descendants)
    assert shim._has_ended() is scans
    assert bool(reads) is scans
    shim.childless = True
    monkeypatch.setattr(processes, "children", lambda _pid: [])
    assert shim._has_ended(), "the last of the sandbox was removed"


@pytest.mark.parametrize(
    ("said", "pid"),
    [
        (b'{ "child-pid": 123 }\n', 123),
        (b'{\n    "child-pid": 4567,\n    "ipc-namespace": 8\n}\n', 4567),
        (b'{ "exit-code": 1 }', 0),
        (b"", 0),
    ],
)
def test_the_first_process_of_a_sandbox_is_the_one_it_says(said: bytes, pid: int) -> None:
    assert main._number_after(b'"child-pid"', said) == pid


def test_looks_at_a_sandbox_that_starts_become_rarer() -> None:
    waited_s, looks = 0.0, 0
    while waited_s < 1.0:
        waited_s += main._pause_s(waited_s)
        looks += 1
    assert main._pause_s(0.0) == 0.003
    assert looks < 30, "330 at equal pauses"
