"""Completion scripts for bash, zsh and fish."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sokovan.cli.completion.scripts import SCRIPTS

# Prints its arguments, and then the candidates.
ANSWERS = """#!/bin/sh
echo "$#:$*" > "$ASKED"
[ "$3" = files ] && exit 1
printf 'ddp\\tRUNNING\\nd$(x)\\n'
"""


def shell(name: str) -> str:
    """The shell, if this machine has it."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"there is no {name} here")
    return found


def bash(line: str, *, cursor: int, before: str = ":") -> str:
    """A bash script that completes a line and prints the candidates."""
    pressed = f"COMP_WORDS=({line}); COMP_CWORD={cursor}; _sokovan sokovan"
    return "\n".join([SCRIPTS["bash"], before, pressed, 'echo "${#COMPREPLY[@]}" "${COMPREPLY[@]}"'])


def run(tmp_path: Path, words: list[str], script: str) -> str:
    """The output of a shell that runs a script, with a fake `sokovan`."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "sokovan"
    program.write_text(ANSWERS, encoding="utf-8")
    program.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "ASKED": str(tmp_path / "asked"),
    }
    done = subprocess.run([*words, script], capture_output=True, text=True, check=False, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_the_shell_itself_can_read_it(tmp_path: Path, name: str) -> None:
    (tmp_path / "script").write_text(SCRIPTS[name], encoding="utf-8")
    assert subprocess.run([shell(name), "-n", str(tmp_path / "script")], check=False).returncode == 0


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_scripts_contain_no_command_names(name: str) -> None:
    assert "logs" not in SCRIPTS[name]


def test_bash_sends_the_words_up_to_the_cursor_and_quotes_what_comes_back(tmp_path: Path) -> None:
    script = bash("sokovan logs d later", cursor=2)
    assert run(tmp_path, [shell("bash"), "-c"], script) == "2 ddp d\\$\\(x\\)\n"
    assert (tmp_path / "asked").read_text(encoding="utf-8") == "3:__complete logs d\n"


def test_bash_sends_an_empty_word_too(tmp_path: Path) -> None:
    script = bash("sokovan logs ''", cursor=2)
    run(tmp_path, [shell("bash"), "-c"], script)
    assert (tmp_path / "asked").read_text(encoding="utf-8") == "3:__complete logs \n"


def test_bash_completes_files_without_candidates(tmp_path: Path) -> None:
    script = bash("sokovan simulate files", cursor=2)
    assert run(tmp_path, [shell("bash"), "-c"], script) == "0\n"


def test_bash_says_nothing_without_our_program(tmp_path: Path) -> None:
    script = bash("sokovan l", cursor=1, before="PATH=/nowhere")
    done = subprocess.run([shell("bash"), "-c", script], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_fish_shows_names_with_their_meanings(tmp_path: Path) -> None:
    script = f"{SCRIPTS['fish']}\ncomplete -C 'sokovan logs d'"
    assert "ddp\tRUNNING" in run(tmp_path, [shell("fish"), "--no-config", "-c"], script)


@pytest.mark.slow
def test_a_real_bash_completes_a_real_command() -> None:
    folder = Path(sys.executable).parent
    script = bash("sokovan session hi", cursor=2)
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    words = [shell("bash"), "-c", script]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    assert (done.stdout, done.stderr) == ("1 history\n", "")
