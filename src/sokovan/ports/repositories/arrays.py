"""Repository of job arrays. Their sessions are in the repository of sessions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from sokovan.domain.ids import ArrayId
from sokovan.domain.records import ArrayCounts, ArrayRecord
from sokovan.ports.repositories.sessions import SessionFilter


class ArrayRepository(Protocol):
    """Arrays, and what their sessions amount to.

    Only the number of sessions that are still to be stored changes.
    """

    async def add(self, array: ArrayRecord) -> None:
        """Store an array, before its sessions; its time and place are the store's."""

    async def unfinished(self, *, before_ms: int, limit: int) -> Sequence[ArrayRecord]:
        """Arrays with sessions that are still to be stored, oldest first.

        Only those submitted before that time.
        """

    async def take_unstored(self, array: ArrayRecord, count: int) -> bool:
        """Note that this unit of work stores the next `count` sessions of an array.

        False, and nothing changes, if another has stored some since the array was read.
        """

    async def named(self, text: str, wanted: SessionFilter) -> Sequence[ArrayRecord]:
        """The arrays that `text` refers to; at most two, if ambiguous.

        An id; else the name of arrays with a session that has not ended; else the name of
        the newest one; else a prefix of ids or names of arrays with such a session.
        """

    async def page(
        self, wanted: SessionFilter, *, limit: int, after: int | None = None, name: str = ""
    ) -> Sequence[ArrayRecord]:
        """At most `limit` arrays with a matching session, newest first, after `after`.

        With `name`, only arrays of this name.
        """

    async def counts(self, ids: Collection[ArrayId]) -> Mapping[ArrayId, ArrayCounts]:
        """The counts of the sessions of these arrays."""

    async def outcomes(self, ids: Collection[str]) -> Mapping[ArrayId, bool]:
        """Whether these arrays succeeded: all sessions did, or one did not.

        Arrays of which no session failed and some have not ended are left out, and so are
        ids of other objects. A session that another one replaced does not count.
        """
