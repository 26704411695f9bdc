"""Actions on named objects that the API reads and writes whole."""

from __future__ import annotations

from sokovan.cli.commands.catalog.catalog_actions import stored_or_new
from sokovan.sdk.errors import api_problem
from sokovan.wire.api.fleet import QueueBody
from sokovan.wire.api.system import ProblemView


def absent() -> QueueBody:
    """Raise the error for an absent object."""
    raise api_problem(ProblemView(type="", title="", status=404, detail="", code="not-found"))


def test_a_stored_object_is_read() -> None:
    stored = QueueBody(name="a", weight=3)
    assert stored_or_new(lambda: stored, absent) == (stored, False)


def test_an_absent_object_is_created() -> None:
    assert stored_or_new(absent, lambda: QueueBody(name="a")) == (QueueBody(name="a"), True)
