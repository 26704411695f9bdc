"""Equal requests of a batch are checked once; their names one by one."""

from __future__ import annotations

from sokovan.domain.problems import NameTaken
from sokovan.orchestrator.sessions.intake.submissions import KeyedRequest, Submission
from tests.unit.adapters.sql.statements import recorded_statements
from tests.unit.orchestrator.sessions.controller_harness import ALICE, controller_harness, session_request


async def test_many_requests_of_one_name_are_prepared_once_and_looked_up_once() -> None:
    async with controller_harness() as on:
        await on.cluster.agent("a1")
        first = await on.submit(name="train")
        counts = []
        for many in (2, 40):
            requests = [KeyedRequest(session_request(name="train"))] * many
            with recorded_statements(on.cluster) as statements:
                outcomes = await on.controller.submit_many(requests, ALICE)
            counts.append(len(statements))
            assert {type(one) for one in outcomes} == {NameTaken}
            assert all(first.session_id in str(one) for one in outcomes)
    assert counts[0] == counts[1]


async def test_equal_requests_of_other_names_are_copies_and_each_name_is_checked() -> None:
    async with controller_harness() as on:
        await on.cluster.agent("a1")
        await on.submit(name="b")
        requests = [KeyedRequest(session_request(name=name)) for name in ("a", "b", "c", "c", "-", "d")]
        outcomes = await on.controller.submit_many(requests, ALICE)

    kinds = [type(one).__name__ for one in outcomes]
    assert kinds == ["Submission", "NameTaken", "Submission", "NameTaken", "InvalidRequest", "Submission"]
    stored = [one.session.spec for one in outcomes if isinstance(one, Submission)]
    assert [spec.name for spec in stored] == ["a", "c", "d"]
    assert len({kernel.kernel_id for spec in stored for kernel in spec.kernels}) == 3
