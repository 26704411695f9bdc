"""Random use of a cluster is reproducible."""

import pytest

from sokovan.domain.errors import SokovanError
from sokovan.domain.ids import AgentId
from sokovan.domain.lifecycle.session import SessionStatus
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.testing.random_administration import RandomAdministration
from sokovan.testing.random_work import AGENTS, Dice, RandomWork
from sokovan.testing.stored_cluster import StoredCluster


def test_dice_fall_the_same_way_again_and_another_way_for_others() -> None:
    first, again, other = ([Dice(seed).roll(100) for _ in range(1)] for seed in ("a", "a", "b"))
    assert first == again != other
    dice, same = Dice("a"), Dice("a")
    assert [dice.roll(6) for _ in range(50)] == [same.roll(6) for _ in range(50)]


def test_every_side_comes_up() -> None:
    dice = Dice("x")
    assert {dice.roll(6) for _ in range(200)} == set(range(6))
    assert {dice.pick("abc") for _ in range(100)} == set("abc")


async def test_verbs_without_anything_to_do_do_nothing() -> None:
    async with StoredCluster.open() as cluster:
        work = RandomWork(cluster, Dice("x"))
        for verb in (work.place, work.grow, work.advance, work.stop, work.force, work.free, work.note):
            await verb()
        assert await cluster.store.read(lambda unit: unit.sessions.page(SessionFilter(), limit=9)) == []


@pytest.mark.slow
async def test_one_seed_gives_one_history() -> None:
    ends = []
    for _ in range(2):
        async with StoredCluster.open() as cluster:
            dice = Dice("story")
            work = RandomWork(cluster, dice)
            await RandomAdministration(cluster, dice).begin()
            verbs = [work.submit, work.submit, work.place, work.place, work.advance, work.stop, work.free, work.grow]
            for _ in range(60):
                try:
                    await dice.pick(verbs)()
                except SokovanError:
                    continue
            records = await cluster.store.read(lambda unit: unit.sessions.page(SessionFilter(), limit=99))
            ends.append([(record.session_id, record.status, record.version) for record in records])
    assert ends[0] == ends[1]
    assert {status for _, status, _ in ends[0]} > {SessionStatus.PENDING}


async def test_work_uses_the_agents_that_administration_made() -> None:
    async with StoredCluster.open() as cluster:
        await RandomAdministration(cluster, Dice("x")).begin()
        for agent in AGENTS:
            assert (await cluster.store.read(lambda unit, name=agent: unit.fleet.get(AgentId(name)))).version == 1  # type: ignore[misc]  # mypy gives no type to a default
