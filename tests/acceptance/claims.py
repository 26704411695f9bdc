"""Which rows of the transition tables a test shows, said beside it and checked after it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, ParamSpec

from sokovan.domain.lifecycle.deployment import DEPLOYMENT
from sokovan.domain.lifecycle.kernel import KERNEL
from sokovan.domain.lifecycle.replica import REPLICA
from sokovan.domain.lifecycle.rollout import ROLLOUT
from sokovan.domain.lifecycle.route import ROUTE
from sokovan.domain.lifecycle.session import SESSION
from tests.acceptance.embedded import Embedded

P = ParamSpec("P")


class Row(NamedTuple):
    """One row of a table, by what it begins with."""

    table: str
    before: str
    trigger: str


ROWS = frozenset(
    Row(table.name, move.before.value, move.trigger.value) for table in (SESSION, KERNEL) for move in table.moves
)
SERVING_ROWS = frozenset(
    Row(table.name, move.before.value, move.trigger.value)
    for table in (DEPLOYMENT, ROUTE, REPLICA, ROLLOUT)
    for move in table.moves
)
CLAIMED: dict[Row, list[str]] = {}


def shows(**claims: str) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Say which rows a test shows: `session="pending:allocated running:kernel_exited"`.

    After the test, the histories of the sessions that it submitted must have them all.
    """
    rows = _rows(claims)
    assert rows <= ROWS, f"no such rows: {sorted(rows - ROWS)}"

    def decorate(test: Callable[P, None]) -> Callable[P, None]:
        _claim(rows, test.__name__)

        @functools.wraps(test)
        def run(*arguments: P.args, **fixtures: P.kwargs) -> None:
            [server] = [one for one in fixtures.values() if isinstance(one, Embedded)]
            before = {session["id"] for session in server.sessions()} if server.is_up else set()
            test(*arguments, **fixtures)
            seen = rows_seen(server, [one["id"] for one in server.sessions() if one["id"] not in before])
            assert rows <= seen, f"not shown: {sorted(rows - seen)}; shown: {sorted(seen)}"

        return run

    return decorate


def rows_seen(server: Embedded, sessions: list[str]) -> set[Row]:
    """The rows in the histories of these sessions."""
    lines: list[dict[str, Any]] = [line for one in sessions for line in server.history(one)]
    found = set()
    for line in lines:
        table = "session" if line["subject"] in sessions else "kernel"
        row = Row(table, line["before"] or "", line["trigger"])
        found |= {row} & ROWS
    return found


def shown_by(test: str, **claims: str) -> Callable[[Embedded, str], None]:
    """Say which rows of a deployment and its parts a test shows; returns their check.

    The test calls it with the id of the deployment, which may have ended.
    """
    rows = _rows(claims)
    assert rows <= SERVING_ROWS, f"no such rows: {sorted(rows - SERVING_ROWS)}"
    _claim(rows, test)

    def check(server: Embedded, deployment: str) -> None:
        lines = server.cli_json("deployment", "events", deployment)
        # A replica has its number behind the word.
        moves = {Row(line["subject"].split()[0], line["before"] or "", line["trigger"]) for line in lines}
        seen = moves & SERVING_ROWS
        assert rows <= seen, f"not shown: {sorted(rows - seen)}; shown: {sorted(seen)}"

    return check


def _rows(claims: dict[str, str]) -> set[Row]:
    return {Row(table, *claim.split(":")) for table, text in claims.items() for claim in text.split()}


def _claim(rows: set[Row], test: str) -> None:
    for row in rows:
        CLAIMED.setdefault(row, []).append(test)
