"""Sessions that wait for others, and for what becomes of them."""

from __future__ import annotations

from tests.acceptance.claims import shows
from tests.acceptance.embedded import SMALL, Embedded, until


def test_a_session_starts_once_all_it_depends_on_have_succeeded(server: Embedded) -> None:
    waits = "import pathlib, time\nwhile not pathlib.Path('go').exists(): time.sleep(0.01)"
    first, second = (server.python(waits, name=f"before-{number}") for number in (1, 2))
    after = server.python("pass", depends_on=["before-1", "before-2"])
    for one in (first, second):
        server.reaches(one, "running")
        until(lambda: server.session(after)["reason"], what="the scheduler has looked at it")
        assert server.session(after)["status"] == "pending"
        assert server.cli("exec", one, "--", "touch", "go").returncode == 0
        server.reaches(one, "terminated")
    ended = server.settles(after)
    assert ended["result"] == "success"
    assert ended["scheduled_at"] >= server.session(second)["ended_at"]


@shows(session="pending:withdrawn", kernel="pending:withdrawn")
def test_a_session_whose_dependency_failed_never_starts_nor_does_what_depends_on_it(server: Embedded) -> None:
    first = server.python("import time; time.sleep(0.5); raise SystemExit(1)", name="fails")
    after = server.python("pass", name="after", depends_on=["fails"])
    last = server.python("pass", depends_on=["after"])
    assert server.reaches(first, "terminated")["result"] == "failure"
    for one in (after, last):
        ended = server.reaches(one, "cancelled")
        assert ended["reason"] == "dependency-failed"
        assert ended["scheduled_at"] is None


def test_a_session_that_depends_on_one_that_is_stopped_never_starts(server: Embedded) -> None:
    first = server.python("import time; time.sleep(600)", name="stopped")
    after = server.python("pass", depends_on=["stopped"])
    server.reaches(first, "running")
    server.end(first)
    assert server.reaches(after, "cancelled")["reason"] == "dependency-failed"


def test_a_session_may_depend_on_one_that_is_over(server: Embedded) -> None:
    first = server.python("pass", name="over")
    server.settles(first)
    assert server.settles(server.python("pass", depends_on=[first]))["result"] == "success"


def test_a_dependency_that_is_not_there_is_refused_at_once(server: Embedded) -> None:
    body = {"command": ["true"], "depends_on": ["nobody"], "resources": SMALL}
    refused = server.api("POST", "/sessions", json=body)
    assert refused.status_code in {404, 422}, refused.text
    assert "nobody" in refused.text
