"""Pagination: the request for the next page, until the end or a limit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from sokovan.sdk.core.calls import PAGE_MAX, Call

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Page(Protocol[T_co]):
    """Some items, and the cursor of the next page."""

    @property
    def items(self) -> Sequence[T_co]:
        """The items, in order."""

    @property
    def next(self) -> str | None:
        """The cursor of the next page; None if this is the last."""


class Paging(Generic[T]):
    """Progress in one list; `limit` is the maximum number of items."""

    def __init__(self, listing: Callable[..., Call[Any]], *, limit: int | None = None) -> None:
        self._listing, self._left = listing, limit
        self._cursor: str | None = None
        self._is_last = False

    def is_over(self) -> bool:
        """Whether there is no further page to request."""
        return self._is_last or (self._left is not None and self._left <= 0)

    def call(self) -> Call[Any]:
        """The request for the next page."""
        limit = PAGE_MAX if self._left is None else min(self._left, PAGE_MAX)
        return self._listing(limit=limit, cursor=self._cursor)

    def accept(self, page: Page[T]) -> Sequence[T]:
        """Record a page and return its items."""
        if self._left is not None:
            self._left -= len(page.items)
        self._cursor, self._is_last = page.next, page.next is None
        return page.items
