"""Concurrent calls share a commit, but not each other's errors."""

import asyncio
from collections.abc import Sequence

import pytest

from sokovan.adapters.sql.group_commit import GroupCommit
from sokovan.testing.clock import VirtualClock


class Commits:
    """Commits controlled by the test: each waits for its outcome, and returns its input."""

    def __init__(self, *, at_most: int = 100) -> None:
        self.begun: list[tuple[str, list[list[str]]]] = []
        self.group = GroupCommit(self._commit, at_most=at_most)
        self._outcomes: asyncio.Queue[BaseException | None] = asyncio.Queue()
        self._at_work = 0

    async def _commit(self, context: str, items: Sequence[Sequence[str]]) -> list[str]:
        self._at_work += 1
        assert self._at_work == 1, "two commits at the same time"
        self.begun.append((context, [list(part) for part in items]))
        try:
            error = await self._outcomes.get()
        finally:
            self._at_work -= 1
        if error is not None:
            raise error
        return [f"{context}:{'+'.join(part)}" for part in items]

    def let_through(self, error: BaseException | None = None) -> None:
        self._outcomes.put_nowait(error)

    def call(self, context: str, *items: str) -> asyncio.Task[str]:
        return asyncio.ensure_future(self.group.submit(context, items))


async def passes() -> None:
    """Let every task go as far as it gets."""
    await VirtualClock().advance(0)


async def test_a_lone_caller_goes_at_once() -> None:
    commits = Commits()
    alone = commits.call("c", "x")
    await passes()
    assert commits.begun == [("c", [["x"]])]
    commits.let_through()
    assert await alone == "c:x"


async def test_who_comes_while_one_is_under_way_shares_the_next() -> None:
    commits = Commits()
    first = commits.call("c", "x")
    await passes()
    later = [commits.call("c", name) for name in ("y", "z")]
    await passes()
    commits.let_through()
    await passes()
    assert commits.begun == [("c", [["x"]]), ("c", [["y"], ["z"]])]
    commits.let_through()
    assert await asyncio.gather(first, *later) == ["c:x", "c:y", "c:z"]


async def test_only_equal_contexts_share() -> None:
    commits = Commits()
    calls = [commits.call(context, name) for context, name in (("c", "x"), ("d", "y"), ("c", "z"))]
    for _ in calls:
        commits.let_through()
    assert await asyncio.gather(*calls) == ["c:x", "d:y", "c:z"]
    assert commits.begun == [("c", [["x"], ["z"]]), ("d", [["y"]])]


async def test_no_more_than_fit_share_but_a_large_call_goes_alone() -> None:
    commits = Commits(at_most=3)
    parts = (("1", "2"), ("3", "4", "5", "6"), ("7",), ("8",))
    calls = [commits.call("c", *part) for part in parts]
    for _ in calls:
        commits.let_through()
    await asyncio.gather(*calls)
    assert [[len(part) for part in items] for _, items in commits.begun] == [[2, 1], [4], [1]]


async def test_an_error_reaches_only_the_callers_of_its_batch() -> None:
    commits = Commits()
    calls = [commits.call(context, name) for context, name in (("c", "x"), ("c", "y"), ("d", "z"))]
    commits.let_through(ValueError("no"))
    commits.let_through()
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(result) for result in results] == [ValueError, ValueError, str]


async def test_the_answers_of_others_survive_the_cancellation_of_the_leader() -> None:
    commits = Commits()
    leader, other = commits.call("c", "x"), commits.call("c", "y")
    await passes()
    leader.cancel()
    await passes()
    assert leader.cancelled()
    assert not other.done()
    commits.let_through()
    assert await other == "c:y"
    assert commits.begun == [("c", [["x"], ["y"]])]


async def test_one_commit_at_a_time_also_after_the_leader_was_cancelled() -> None:
    commits = Commits()
    leader = commits.call("c", "x")
    await passes()
    leader.cancel()
    next_one = commits.call("c", "y")
    await passes()
    assert commits.begun == [("c", [["x"]])]
    commits.let_through()
    commits.let_through()
    assert await next_one == "c:y"


async def test_a_caller_cancelled_before_its_batch_is_skipped() -> None:
    commits = Commits()
    first = commits.call("c", "x")
    await passes()
    given_up, other = commits.call("c", "y"), commits.call("c", "z")
    await passes()
    given_up.cancel()
    await passes()
    for _ in range(2):
        commits.let_through()
    assert [await first, await other] == ["c:x", "c:z"]
    assert commits.begun == [("c", [["x"]]), ("c", [["z"]])]


async def test_an_interrupted_commit_interrupts_its_callers_and_the_next_goes_on() -> None:
    commits = Commits()
    broken = commits.call("c", "x")
    commits.let_through(asyncio.CancelledError())
    with pytest.raises(asyncio.CancelledError):
        await broken
    commits.let_through()
    assert await commits.call("c", "y") == "c:y"
