"""Actions on named objects that the API reads and writes whole."""

from __future__ import annotations

from sokovan.cli.commands.catalog.catalog_actions import updated
from sokovan.sdk.errors import api_problem
from sokovan.wire.api.fleet import QueueBody
from sokovan.wire.api.system import ProblemView


def absent() -> QueueBody:
    """Raise the error for an absent object."""
    raise api_problem(ProblemView(type="", title="", status=404, detail="", code="not-found"))


def test_omitted_options_keep_the_stored_value() -> None:
    body, is_new = updated(lambda: QueueBody(name="a", weight=3, priority=1), absent, {"weight": 5, "priority": None})
    assert (body, is_new) == (QueueBody(name="a", weight=5, priority=1), False)


def test_an_absent_object_is_created() -> None:
    body, is_new = updated(absent, lambda: QueueBody(name="a"), {"weight": 5})
    assert (body, is_new) == (QueueBody(name="a", weight=5), True)
