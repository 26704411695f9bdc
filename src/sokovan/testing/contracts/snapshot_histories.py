"""A long random story, after each part of which a source must show what is so.

`ports.snapshots` promises that a source is kept up to date by what changed; here
every kind of change happens, in an order that nobody thought of.
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


class Story:
    """One thing after the other, whatever the dice say; what is refused is refused."""

    def __init__(self, cluster: StoredCluster, seed: str) -> None:
        self._dice = Dice(seed)
        self.work = RandomWork(cluster, self._dice)
        self.administration = RandomAdministration(cluster, self._dice)
        # What happens more often is named more often.
        work, office = self.work, self.administration
        self.verbs: list[Callable[[], Awaitable[None]]] = [
            *[work.submit] * 3, *[work.place] * 4, work.grow, *[work.advance] * 4, work.stop, work.force,
            *[work.free] * 3, work.note, office.enrol, office.move_agent, office.limit, office.arrange,
            office.remember,
        ]  # fmt: skip
        self.done: list[str] = []

    async def go_on(self) -> None:
        """One step."""
        verb = self._dice.pick(self.verbs)
        name = getattr(verb, "__name__", "?")
        try:
            await verb()
        except SokovanError as error:
            name = f"{name} ({error.code})"
        self.done.append(name)


async def told(cluster: StoredCluster, seed: str) -> None:
    """Tell one story, look after every few steps, and check the laws at its end."""
    story, source = Story(cluster, seed), SqlSnapshots(cluster.store)
    await story.administration.begin()
    for step in range(STEPS):
        await story.go_on()
        if step % STEPS_PER_LOOK == 0:
            await same_as_fresh(cluster, source, after=f"{seed}, step {step}, {', '.join(story.done[-8:])}")
    for finding in await audit(cluster.store):
        law = finding.invariant
        expect(finding.holds, f"{seed}: {law.id} ({law.title}) does not hold: {finding.rows}")
    verbs = {getattr(verb, "__name__", "?") for verb in story.verbs}
    expect(verbs <= set(story.done), f"{seed}: nothing of this kind happened: {verbs - set(story.done)}")


async def a_source_that_followed_a_story_shows_what_is_so(cluster: StoredCluster) -> None:
    """As a source shows it that reads everything."""
    await told(cluster, "one")


async def a_source_that_followed_another_story_shows_what_is_so(cluster: StoredCluster) -> None:
    """Other choices, other orders."""
    await told(cluster, "two")


CHECKS: tuple[Check, ...] = (
    a_source_that_followed_a_story_shows_what_is_so,
    a_source_that_followed_another_story_shows_what_is_so,
)
