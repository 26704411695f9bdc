"""How the results of shared transactions and lanes find their way back."""

from __future__ import annotations

from datetime import UTC, datetime

from sokovan.adapters.sql.allocation.batch_results import put_together, share_of
from sokovan.domain.ids import SessionId
from sokovan.ports.allocation import AllocationRefused, AllocationResult, BatchResult
from sokovan.testing.stored_cluster import assignment

AT = datetime(2026, 1, 1, tzinfo=UTC)


def result(name: str) -> AllocationResult:
    return AllocationResult(SessionId(name), AT, (), {})


def refusal(name: str) -> AllocationRefused:
    return AllocationRefused(session_id=name, problem="taken")


def test_each_caller_hears_of_its_own_sessions_only_and_in_its_own_order() -> None:
    whole = BatchResult((result("a"), result("b"), result("c")), {SessionId("d"): refusal("d")})
    by_session = {one.session_id: one for one in whole.allocated}
    mine = share_of([assignment("c", "x"), assignment("d", "x"), assignment("a", "x")], by_session, whole)
    assert [one.session_id for one in mine.allocated] == ["c", "a"]
    assert list(mine.refused) == ["d"]


def test_lanes_come_back_in_the_order_of_the_batch() -> None:
    batch = [assignment(name, "x") for name in ("a", "b", "c", "d")]
    lanes = [BatchResult((result("b"), result("d")), {}), BatchResult((result("a"),), {SessionId("c"): refusal("c")})]
    whole = put_together(batch, lanes)
    assert [one.session_id for one in whole.allocated] == ["a", "b", "d"]
    assert list(whole.refused) == ["c"]
