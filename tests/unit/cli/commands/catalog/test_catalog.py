"""What all nouns have in common that are read and written whole."""

from __future__ import annotations

import pytest

from sokovan.cli.commands.catalog.catalog import amounts_text, changed, read_amounts
from sokovan.sdk.errors import InvalidSetting, api_problem
from sokovan.wire.api.fleet import QueueBody
from sokovan.wire.api.system import ProblemView
from tests.unit.cli.canned_server import CannedServer, Sokovan

NOUNS = ("queue", "quota", "scaling-group", "image", "domain", "group", "user")
PATHS = {"quota": "policies"}
BODIES = {"group": {"domain": "d"}, "user": {"domain": "d"}}


def absent() -> QueueBody:
    """Nothing is there."""
    raise api_problem(ProblemView(type="", title="", status=404, detail="", code="not-found"))


def test_what_is_not_said_stays_as_it_is() -> None:
    body, is_new = changed(lambda: QueueBody(name="a", weight=3, priority=1), absent, {"weight": 5, "priority": None})
    assert (body, is_new) == (QueueBody(name="a", weight=5, priority=1), False)


def test_what_is_not_there_is_made() -> None:
    body, is_new = changed(absent, lambda: QueueBody(name="a"), {"weight": 5})
    assert (body, is_new) == (QueueBody(name="a", weight=5), True)


def test_amounts_are_read_by_slot() -> None:
    assert read_amounts(("gpu=8", "mem=4GiB"), option="--max") == {"cuda.device": "8", "mem": "4GiB"}
    assert read_amounts((), option="--max") is None
    with pytest.raises(InvalidSetting, match="--max 'gpu'"):
        read_amounts(("gpu",), option="--max")


def test_amounts_are_told_by_slot() -> None:
    assert (amounts_text(None), amounts_text({"b": 2, "a": 1})) == ("-", "a=1 b=2")


@pytest.mark.parametrize("noun", NOUNS)
def test_every_noun_is_listed_shown_and_removed_after_a_yes(server: CannedServer, sokovan: Sokovan, noun: str) -> None:
    path, body = PATHS.get(noun, f"{noun}s"), {"name": "a", **BODIES.get(noun, {})}
    server.says(f"GET {path}", {"items": [body], "next": None})
    server.says(f"GET {path}/a", body)
    server.says(f"DELETE {path}/a", None, status=204)
    assert sokovan(noun, "ls", "-o", "name") == (0, "a\n", "")
    status, out, _ = sokovan(noun, "show", "a")
    assert status == 0
    assert out.split()[:2] == ["name", "a"]
    assert sokovan(noun, "rm", "a")[0] == 2
    assert not any(line.startswith("DELETE") for line in server.lines)
    status, _, err = sokovan(noun, "rm", "a", "--yes")
    assert (status, err.endswith("removed\n")) == (0, True)


@pytest.mark.parametrize("noun", NOUNS)
def test_nobody_is_asked_about_what_is_not_there(server: CannedServer, sokovan: Sokovan, noun: str) -> None:
    status, _, err = sokovan(noun, "rm", "nobody")
    assert (status, "nobody is there to ask" in err) == (3, False)
    assert [line.partition(" ")[0] for line in server.lines] == ["GET"]


@pytest.mark.parametrize("noun", NOUNS)
def test_what_is_not_there_is_3(server: CannedServer, sokovan: Sokovan, noun: str) -> None:
    status, out, err = sokovan(noun, "show", "nobody")
    assert (status, out) == (3, "")
    assert "[not-found]" in err
    assert len(server.asked) == 1
