"""Contract of `ports.snapshots.SnapshotSource` under random changes.

A source is refreshed incrementally; after random sequences of all kinds of changes it
must show the same as a source that reads everything.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from sokovan.adapters.sql.invariants.auditor import audit
from sokovan.adapters.sql.snapshots.source import SqlSnapshots
from sokovan.domain.errors import SokovanError
from sokovan.testing.contracts import expect
from sokovan.testing.contracts.snapshots import same_as_fresh
from sokovan.testing.random_administration import RandomAdministration
from sokovan.testing.random_work import Dice, RandomWork
from sokovan.testing.stored_cluster import StoredCluster

Check: TypeAlias = Callable[[StoredCluster], Awaitable[None]]
STEPS = 200
STEPS_PER_LOOK = 5


class RandomHistory:
    """Performs random steps; refused steps are ignored."""

    def __init__(self, cluster: StoredCluster, seed: str) -> None:
        self._dice = Dice(seed)
        self.work = RandomWork(cluster, self._dice)
        self.administration = RandomAdministration(cluster, self._dice)
        # Events that happen more often are named more often.
        work, office = self.work, self.administration
        self.verbs: list[Callable[[], Awaitable[None]]] = [
            *[work.submit] * 3, *[work.place] * 4, work.grow, *[work.advance] * 4, work.stop, work.force,
            *[work.free] * 3, work.note, office.enrol, office.move_agent, office.limit, office.arrange,
            office.remember,
        ]  # fmt: skip
        self.done: list[str] = []

    async def step(self) -> None:
        """Perform one step."""
        verb = self._dice.pick(self.verbs)
        name = getattr(verb, "__name__", "?")
        try:
            await verb()
        except SokovanError as error:
            name = f"{name} ({error.code})"
        self.done.append(name)


async def run_history(cluster: StoredCluster, seed: str) -> None:
    """Run a random history, compare after every few steps, check invariants."""
    history, source = RandomHistory(cluster, seed), SqlSnapshots(cluster.store)
    await history.administration.begin()
    for step in range(STEPS):
        await history.step()
        await source.refresh(sessions=False)
        if step % STEPS_PER_LOOK == 0:
            await same_as_fresh(cluster, source, after=f"{seed}, step {step}, {', '.join(history.done[-8:])}")
    for finding in await audit(cluster.store):
        invariant = finding.invariant
        expect(finding.holds, f"{seed}: {invariant.id} ({invariant.title}) does not hold: {finding.rows}")
    verbs = {getattr(verb, "__name__", "?") for verb in history.verbs}
    expect(verbs <= set(history.done), f"{seed}: nothing of this kind happened: {verbs - set(history.done)}")


async def an_incremental_source_equals_a_fresh_one(cluster: StoredCluster) -> None:
    """After a random history."""
    await run_history(cluster, "one")


async def an_incremental_source_equals_a_fresh_one_after_another_history(cluster: StoredCluster) -> None:
    """With another seed."""
    await run_history(cluster, "two")


CHECKS: tuple[Check, ...] = (
    an_incremental_source_equals_a_fresh_one,
    an_incremental_source_equals_a_fresh_one_after_another_history,
)
