"""The worked examples of evictions and time in docs/howto, in their order, with what the pages show."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.embedded import LIMIT_S, Embedded, until
from tests.acceptance.endings import ended_well
from tests.acceptance.fast_timings import FastTimings

pytestmark = pytest.mark.slow

PAGES = Path(__file__).parents[2] / "docs" / "howto"
# The evicted of an example are not tried again before it ends.
TIMINGS = FastTimings(back_off_s=600)
# The clean-up of an example, after which the next one begins.
STOP = "stop"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Embedded]:
    """A new server as the pages start it, since examples change queues: `sokovan up --fake 4x8 --no-agent`."""
    server = Embedded(tmp_path / "examples", timings=TIMINGS)
    with ended_well(server):
        server.start("--fake", "4x8", "--no-agent")
        yield server


def examples(page: str, *headings: str) -> list[tuple[list[str], list[str]]]:
    """The commands of sections of a page, and the lines that each prints."""
    sections = re.split(r"^## ", (PAGES / page).read_text(encoding="utf-8"), flags=re.MULTILINE)
    chosen = [one for one in sections if one.startswith(headings)]
    assert len(chosen) == len(headings)
    found = []
    for block in re.findall(r"```console\n(.*?)```", "".join(chosen), flags=re.DOTALL):
        for command in re.findall(r"^\$ sokovan (.*\n(?:(?!\$ ).*\n)*)", block, flags=re.MULTILINE):
            first, *lines = command.splitlines()
            found.append((shlex.split(first), lines))
    return found


def pattern(lines: list[str]) -> re.Pattern[str]:
    """What the output of a command matches: `...` stands for anything."""
    text = " ".join(" ".join(lines).split())
    return re.compile(
        r".*".join(re.escape(part.strip()).replace(r"\ ", r"\s+") for part in text.split("...")), re.DOTALL
    )


def play(server: Embedded, commands: list[tuple[list[str], list[str]]]) -> None:
    """Run the commands of a page, and wait for what it shows."""
    for words, lines in commands:
        done = server.cli(*words)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        if "--detach" in words:
            server.reaches(words[words.index("--name") + 1], "running", "pending")
        if words[0] == STOP:
            for name in words[1:]:
                server.settles(name)
        if lines:
            expected = pattern(lines)
            until(
                lambda: expected.search(server.cli(*words).stdout),  # noqa: B023  # called in this turn of the loop only
                what=expected.pattern,
                limit_s=LIMIT_S / 8,  # each look is a command, and takes longer than its step
                tell=lambda: server.cli(*words).stdout,  # noqa: B023  # called in this turn of the loop only
            )


def test_the_page_of_evictions_shows_what_its_commands_do(server: Embedded) -> None:
    before = examples("evict-sessions.md", "Preempt", "Reclaim", "Consolidate")
    [actions] = re.findall(r"^\$ sokovan (scaling-group .*)$", (PAGES / "evict-sessions.md").read_text(), re.MULTILINE)[
        :1
    ]
    play(server, [(shlex.split(actions), []), (["queue", "set", "default", "--min-runtime", "0s"], []), *before])
    server.audit()


def test_the_page_of_time_shows_what_its_commands_do(server: Embedded) -> None:
    play(server, examples("plan-in-time.md", "Time limits", "Evictions for bookings", "Loans"))
    server.audit()
