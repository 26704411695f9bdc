"""Lists that come in pages."""

from __future__ import annotations

from sokovan.sdk.core.catalog_calls import QUEUES
from sokovan.sdk.core.paging import Paging
from sokovan.wire.api.fleet import QueueBody, QueuePage

QUEUE = QueueBody(name="research")


def asked(paging: Paging[QueueBody]) -> tuple[str, str | None]:
    """How many the next request asks for, and from where."""
    query = paging.call().query
    return query["limit"], query.get("cursor")


def test_a_list_goes_on_where_the_last_page_ended_until_there_is_no_more() -> None:
    paging: Paging[QueueBody] = Paging(QUEUES.listing)
    assert asked(paging) == ("100", None)
    assert paging.accept(QueuePage(items=[QUEUE], next="c")) == [QUEUE]
    assert asked(paging) == ("100", "c")
    paging.accept(QueuePage(items=[]))
    assert paging.is_over()


def test_no_more_is_asked_for_than_is_wanted() -> None:
    paging: Paging[QueueBody] = Paging(QUEUES.listing, limit=101)
    assert asked(paging) == ("100", None)
    paging.accept(QueuePage(items=[QUEUE] * 100, next="c"))
    assert asked(paging) == ("1", "c")
    paging.accept(QueuePage(items=[QUEUE], next="d"))
    assert paging.is_over()


def test_who_wants_nothing_asks_for_nothing() -> None:
    assert Paging(QUEUES.listing, limit=0).is_over()
