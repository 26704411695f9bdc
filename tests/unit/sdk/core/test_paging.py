"""Lists that come in pages."""

from __future__ import annotations

from sokovan.sdk.core.catalog_calls import QUEUES
from sokovan.sdk.core.paging import Paging
from sokovan.wire.api.fleet import QueueBody, QueuePage

QUEUE = QueueBody(name="research")


def asked(paging: Paging[QueueBody]) -> tuple[str, str | None]:
    """Limit and cursor of the next request."""
    query = paging.call().query
    return query["limit"], query.get("cursor")


def test_a_list_continues_at_the_cursor_until_the_last_page() -> None:
    paging: Paging[QueueBody] = Paging(QUEUES.listing)
    assert asked(paging) == ("100", None)
    assert paging.accept(QueuePage(items=[QUEUE], next="c")) == [QUEUE]
    assert asked(paging) == ("100", "c")
    paging.accept(QueuePage(items=[]))
    assert paging.is_over()


def test_no_more_items_are_requested_than_the_limit() -> None:
    paging: Paging[QueueBody] = Paging(QUEUES.listing, limit=101)
    assert asked(paging) == ("100", None)
    paging.accept(QueuePage(items=[QUEUE] * 100, next="c"))
    assert asked(paging) == ("1", "c")
    paging.accept(QueuePage(items=[QUEUE], next="d"))
    assert paging.is_over()


def test_a_limit_of_zero_sends_no_request() -> None:
    assert Paging(QUEUES.listing, limit=0).is_over()
