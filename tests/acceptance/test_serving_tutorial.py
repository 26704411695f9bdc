"""The tutorial of a served model, typed as it stands, with what the page shows."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.embedded import LIMIT_S, Embedded, sokovan_in, until
from tests.acceptance.endings import ended_well
from tests.acceptance.fast_timings import FastTimings
from tests.acceptance.test_worked_examples import pattern

pytestmark = [
    pytest.mark.server,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("curl") is None, reason="the page uses curl"),
]

PAGE = (Path(__file__).parents[2] / "docs" / "tutorial" / "serve-a-model.md").read_text(encoding="utf-8")
BASH = "/bin/bash"
# Differs from the page: the port is that of this server, and the key that which `serve` prints.
PORT, KEY = "7648", "ske_..."
# What these show comes a moment after the command before.
SHOWN_SOON = ("deployment show", "deployment why", "deployment history")


def section(heading: str) -> str:
    [found] = [one for one in re.split(r"^## ", PAGE, flags=re.MULTILINE) if one.startswith(f"{heading}\n")]
    return found


def typed(heading: str) -> list[tuple[str, list[str]]]:
    """The commands of a section, and the lines that each prints."""
    found = []
    for block in re.findall(r"```console\n(.*?)```", section(heading), flags=re.DOTALL):
        for command, output in re.findall(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", block, flags=re.MULTILINE):
            found.append((command, output.splitlines()))
    return found


class Terminal:
    """A shell beside the server, which keeps the variables that are exported in it."""

    def __init__(self, server: Embedded) -> None:
        self._server = server
        programs = str(Path(sys.executable).parent)
        self.variables = {**server.environment, "PATH": f"{programs}{os.pathsep}{server.environment['PATH']}"}
        self.key = ""

    def types(self, command: str, lines: list[str]) -> str:
        """Run a command, which succeeds and prints the lines; all that it has printed."""
        command = command.replace(PORT, self._server.about["gateway"].rpartition(":")[2]).replace(KEY, self.key)
        if command.startswith("export "):
            name, _, value = command.removeprefix("export ").partition("=")
            self.variables[name] = value
            return ""
        shown = pattern([line.replace(PORT, self._server.about["gateway"].rpartition(":")[2]) for line in lines])
        if not any(word in command for word in SHOWN_SOON):
            printed = self._run(command)
            assert shown.search(printed), f"{command} printed {printed}, not {lines}"
        else:
            printed = until(
                lambda: text if shown.search(text := self._run(command)) else None,
                limit_s=LIMIT_S / 8,  # each look is a command, and takes longer than its step
                what=f"{command} prints {lines}",
                tell=lambda: self._run(command),
            )
        for key in re.findall(r"^key +(ske_\S+)$", printed, flags=re.MULTILINE):
            self.key = key
        return printed

    def _run(self, command: str) -> str:
        done = subprocess.run(
            [BASH, "-c", command],
            env=self.variables,
            cwd=self._server.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, f"{command} ended with {done.returncode}: {done.stdout}"
        return done.stdout


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """`sokovan up` in its own folder, as a reader has it."""
    server = Embedded(tmp_path_factory.mktemp("tutorial"), timings=FastTimings(settled_s=1))
    with ended_well(server):
        server.start()
        try:
            yield server
        finally:
            server.cli("deployment", "rm", "toy", "--yes")


def test_each_command_does_what_the_page_shows(server: Embedded) -> None:
    terminal = Terminal(server)
    for command, lines in [*typed("Serve"), *typed("Ask")]:
        terminal.types(command, lines)

    [program] = re.findall(r"```python\n(.*?)```", section("Ask"), flags=re.DOTALL)
    file = server.folder / "ask.py"
    file.write_text(program.replace(PORT, server.about["gateway"].rpartition(":")[2]), encoding="utf-8")
    answer = terminal.types(shlex.join([sys.executable, str(file)]), [])
    assert len(answer.split()) == 16

    counts = {
        command: len(terminal.types(command, lines).split()) for command, lines in typed("Change it while it answers")
    }
    assert counts['sokovan chat toy "hello"'] == 3, "the page says that the update shortens answers"
    assert len(server.cli("chat", "toy", "hello").stdout.split()) == 16, "the page says that the rollback ends that"

    for command, lines in typed("Delete"):
        terminal.types(command, lines)
    until(lambda: not server.cli_json("deployment", "ls"), limit_s=LIMIT_S, what="it is gone")


def test_the_engines_of_real_models_are_those_that_the_page_names(server: Embedded, tmp_path: Path) -> None:
    # Planned and not served: they need a GPU, and programs that are not installed here.
    (tmp_path / "model.gguf").touch()
    planned = {}
    for command, _ in typed("A real model"):
        program, serve, *words = shlex.split(command)
        assert (program, serve) == ("sokovan", "serve")
        done = sokovan_in(tmp_path, server, "deployment", "plan", *words)
        assert done.returncode == 0, done.stderr
        planned[words[0]] = done.stdout.split()[1]
    assert planned == {"Qwen/Qwen3-8B": "vllm", "./model.gguf": "llama-cpp"}
    text = " ".join(section("A real model").split())
    assert "The first takes vLLM and the second llama.cpp" in text
