"""The scheduler decides as the reference scheduler does, on random small clusters."""

from __future__ import annotations

from hypothesis import given, reject
from hypothesis import strategies as st

from sokovan.scheduling.pipeline import schedule
from sokovan.scheduling.profile import SchedulingProfile
from sokovan.scheduling.snapshot import SystemSnapshot
from sokovan.scheduling.trace import Code
from tests.reference.clusters import ACTIONS, SELECTORS, SEQUENCERS, Theme, clusters, profiles
from tests.reference.scheduler import Decision, reference_schedule

BOTH = ("proportion", "capacity")
THEMES = {
    "plain": Theme(picky=True, mixed=True, busy=True, policies=BOTH),
    "gangs": Theme(mixed=True, elastic=True, groups=True, busy=True, running=True, best_effort=True, actions=ACTIONS),
    "quotas": Theme(limits=True, owners=2, mixed=True, elastic=True, groups=True, running=True, agents=4),
    "queues": Theme(queues=4, policies=BOTH, elastic=True, running=True, agents=5, actions=ACTIONS),
    "topology": Theme(tiers=2, mixed=True, elastic=True, running=True, busy=True, groups=True),
    "partitions": Theme(tiers=2, partitions=True, mixed=True, elastic=True, running=True, busy=True),
    "reservations": Theme(
        releasing=True, busy=True, promised=True, nominated=True, mixed=True, elastic=True, running=True, tiers=1,
        partitions=True, policies=BOTH,
    ),
    "shards": Theme(shards=True, picky=True, busy=True, releasing=True, selectors=SELECTORS),
    "selectors": Theme(selectors=SELECTORS, busy=True, releasing=True, mixed=True, nominated=True, overcommitted=True),
    "sequencers": Theme(sequencers=SEQUENCERS, owners=3, elastic=True, mixed=True, queues=2, policies=BOTH, agents=5),
    "wide": Theme(kernels=45, sessions=3, selectors=SELECTORS, elastic=True, busy=True, releasing=True, tiers=1),
    "everything": Theme(
        busy=True, releasing=True, picky=True, mixed=True, elastic=True, groups=True, partitions=True, running=True,
        best_effort=True, nominated=True, promised=True, tiers=2, queues=3, limits=True, shards=True, owners=3,
        selectors=SELECTORS, sequencers=SEQUENCERS, policies=BOTH, actions=ACTIONS,
    ),
}  # fmt: skip


def decided(snapshot: SystemSnapshot, profile: SchedulingProfile) -> Decision:
    """The plan of the scheduler in the words of the reference."""
    plan = schedule(snapshot, profile)
    return Decision(
        [(str(placement.kernel_id), str(placement.agent_id)) for placement in plan.placements],
        {str(r.session_id): [(str(k), str(agent)) for k, agent in r.kernels] for r in plan.reservations},
        {str(v.session_id): v.code for v in plan.verdicts if v.code not in {Code.PLACED, Code.RESERVED}},
    )
