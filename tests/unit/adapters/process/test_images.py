"""Virtual environments are built once, count when they are whole, and leave nothing when they fail."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.process.images import ProcessImages
from sokovan.adapters.process.layout import KernelLayout
from sokovan.ports.runtime import ImageUnavailable
from tests.linked_venv import LINKED_CREATOR


@pytest.fixture
def layout(tmp_path: Path) -> KernelLayout:
    made = KernelLayout(tmp_path / "root")
    made.prepare()
    return made


def images(layout: KernelLayout, **requirements: tuple[str, ...]) -> ProcessImages:
    return ProcessImages(layout, SystemClock(), requirements)


def test_the_machine_itself_is_always_ready(layout: KernelLayout) -> None:
    assert images(layout).is_ready("host")
    assert images(layout).programs("host") == ()


@pytest.mark.parametrize("image", ["", "python:3.12", "venv:", "venv:../x", "venv:a/b", "venv:.x", "venv:none", "Host"])
def test_what_is_not_known_here_is_unavailable(layout: KernelLayout, image: str) -> None:
    with pytest.raises(ImageUnavailable):
        images(layout).is_ready(image)
    with pytest.raises(ImageUnavailable):
        images(layout).programs(image)


def test_another_list_of_requirements_is_another_folder(layout: KernelLayout) -> None:
    (layout.images / "a.txt").write_text("x==1\n")
    first = images(layout).folder("venv:a")
    (layout.images / "a.txt").write_text("x==2\n")
    assert images(layout).folder("venv:a") != first
    assert images(layout, a=("x==1",)).folder("venv:a") == first
    assert not images(layout).is_ready("venv:a")
    with pytest.raises(ImageUnavailable, match="not installed"):
        images(layout).programs("venv:a")


def test_installed_images_are_the_machine_and_complete_environments(layout: KernelLayout) -> None:
    for name in ("done", "begun", ".hidden"):
        (layout.images / f"{name}.txt").write_text("")
    found = images(layout)
    for name, marker in (("done", ".complete"), ("begun", "lib")):
        folder = found.folder(f"venv:{name}")
        assert folder is not None
        folder.mkdir()
        (folder / marker).touch()
    assert found.installed() == ("host", "venv:done")


async def test_an_installation_that_is_given_up_leaves_nothing(layout: KernelLayout) -> None:
    started = asyncio.Event()
    slow = images(layout, slow=())
    preparing = asyncio.ensure_future(slow.prepare("venv:slow", lambda _line: started.set()))
    await started.wait()
    preparing.cancel()
    await asyncio.gather(preparing, return_exceptions=True)
    assert [path.name for path in layout.venvs.iterdir() if not path.name.startswith(".")] == []


async def test_half_an_installation_of_a_killed_agent_is_made_anew(
    layout: KernelLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run(
        _self: ProcessImages, _image: str, command: Sequence[str], _progress: Callable[[str], None], **_lock: int
    ) -> None:
        os.mkdir(command[-1])  # noqa: PTH102  # a slow stand-in for the installer

    monkeypatch.setattr(ProcessImages, "_run", run)
    made = images(layout, plain=())
    folder = made.folder("venv:plain")
    assert folder is not None
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "junk").touch()
    assert not made.is_ready("venv:plain")
    await made.prepare("venv:plain", lambda _line: None)
    assert made.is_ready("venv:plain")
    assert not (folder / "bin" / "junk").exists()
    await made.prepare("venv:plain", lambda line: pytest.fail(f"a ready image was made again: {line}"))


async def test_a_failing_installer_reports_its_last_lines(layout: KernelLayout) -> None:
    script = "import sys\nfor n in range(100):\n    print('line', n)\nprint('x' * 200000)\nsys.exit(3)"
    with pytest.raises(ImageUnavailable, match="line 99") as caught:
        await images(layout)._run("venv:x", [sys.executable, "-c", script], lambda _line: None)
    assert "line 50" not in caught.value.problem


async def test_secrets_of_the_agent_do_not_reach_the_installer(
    layout: KernelLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOKOVAN_TOKEN", "secret")
    monkeypatch.setenv("PYTHONPATH", "/of/the/agent")
    monkeypatch.setenv("PIP_INDEX_URL", "https://packages.example")
    lines: list[str] = []
    script = "import os; print(sorted(os.environ))"
    await images(layout)._run("venv:x", [sys.executable, "-c", script], lines.append)
    assert "PIP_INDEX_URL" in lines[0]
    assert "SOKOVAN_TOKEN" not in lines[0]
    assert "PYTHONPATH" not in lines[0]


@pytest.mark.slow
async def test_an_installer_that_outlives_its_agent_keeps_the_next_one_waiting(
    layout: KernelLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sokovan.adapters.process.images.CREATOR", LINKED_CREATOR)
    slow = images(layout, slow=())
    folder = slow.folder("venv:slow")
    assert folder is not None
    said: list[str] = []
    async with slow._exclusive(folder, said.append) as lock:
        # As an agent leaves it that is killed: its own hold on the lock is gone, its installer is not.
        installer = await asyncio.create_subprocess_exec(
            sys.executable, "-c", "input()", stdin=asyncio.subprocess.PIPE, pass_fds=(lock,)
        )
    waits = asyncio.ensure_future(slow.prepare("venv:slow", said.append))
    while not said:
        await SystemClock().sleep(0.01)
    assert "waiting for another installation" in said[0]
    await installer.communicate(b"\n")
    await waits
    assert slow.is_ready("venv:slow")
