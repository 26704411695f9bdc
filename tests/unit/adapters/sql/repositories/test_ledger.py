"""Validity of proofs, and the number of statements to free kernels."""

from types import SimpleNamespace

import pytest
import sqlalchemy as sa

from sokovan.adapters.sql.repositories.ledger import _proof_problem
from sokovan.adapters.sql.repositories.usage import LedgerMismatch
from sokovan.domain.ids import SessionId
from sokovan.domain.lifecycle.agent import AgentStatus
from sokovan.domain.lifecycle.kernel import FreeProof
from sokovan.testing.stored_cluster import BY_COORDINATOR, StoredCluster, assignment
from tests.unit.adapters.sql.cluster_rows import kernel_state
from tests.unit.adapters.sql.statements import recorded_statements

_P = FreeProof


# A kernel of incarnation 2: the proof, whether it was sent, its agent's incarnation and status, and whether that holds.
Case = tuple[FreeProof, bool, int, str, bool]


@pytest.mark.parametrize(
    "case",
    [
        (_P.NEVER_SENT, False, 2, "alive", True),
        (_P.NEVER_SENT, True, 2, "terminated", False),
        (_P.AGENT_TOMBSTONE, True, 2, "alive", True),
        (_P.AGENT_TOMBSTONE, True, 2, "lost", True),
        (_P.AGENT_TOMBSTONE, True, 3, "alive", False),
        (_P.AGENT_TOMBSTONE, True, 1, "alive", False),
        (_P.INCARNATION_FENCED, True, 3, "alive", True),
        (_P.INCARNATION_FENCED, True, 2, "alive", False),
        (_P.INCARNATION_FENCED, True, 1, "alive", False),
        (_P.HOST_GONE, True, 2, "terminated", True),
        *[(_P.HOST_GONE, True, 3, status.value, False) for status in AgentStatus if status != "terminated"],
    ],
)
def test_a_proof_holds_by_what_the_store_knows(case: Case) -> None:
    proof, sent, incarnation, status, holds = case
    kernel = kernel_state("s.0", sent=sent, incarnation=2)
    agent = SimpleNamespace(incarnation=incarnation, status=status)
    assert (_proof_problem(kernel, agent, proof) == "") is holds


def test_an_agent_that_is_not_there_proves_nothing() -> None:
    for proof in (_P.AGENT_TOMBSTONE, _P.INCARNATION_FENCED, _P.HOST_GONE):
        assert _proof_problem(kernel_state("s.0", sent=True, incarnation=1), None, proof)


async def test_what_was_freed_by_hand_is_not_freed_again_silently() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.agent("a1")
        await cluster.submit("s1", slots={"cpu": 1000})
        await cluster.place("s1", "a1")
        await cluster.stop("s1")
        async with cluster.store.database.writing() as connection:
            await connection.execute(sa.text("UPDATE agent_slots SET used = 0"))
            await connection.commit()
        with pytest.raises(LedgerMismatch):
            await cluster.free("s1", FreeProof.NEVER_SENT)
        assert (await cluster.session("s1")).kernels[0].status == "terminating"


async def statements_to_free(cluster: StoredCluster, count: int) -> int:
    """The number of statements to free this many sessions."""
    names = [f"s{count}.{number:02}" for number in range(count)]
    for name in names:
        await cluster.submit(name)
    await cluster.place_all([assignment(name, "a1") for name in names])
    known = {SessionId(name): await cluster.stop(name) for name in names}
    kernels = [kernel for session in known.values() for kernel in session.kernels]
    with recorded_statements(cluster) as statements:
        await cluster.store.run(lambda unit: unit.ledger.free(kernels, _P.NEVER_SENT, BY_COORDINATOR, known=known))
    return len(statements)


@pytest.mark.slow
async def test_freeing_many_sessions_takes_as_many_statements_as_freeing_two() -> None:
    async with StoredCluster.open() as cluster:
        await cluster.agent("a1", slots={"cpu": 1_000_000, "mem": 1 << 50}, devices=False)
        two, many = [await statements_to_free(cluster, count) for count in (2, 40)]
        assert two == many < 18
