"""The past usage by which fair-share orders a pending session."""

from __future__ import annotations

from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.owners.past_usage import UsageScope
from sokovan.domain.owners.tenancy import Group, Owner, User
from sokovan.domain.owners.usage_totals import usage_totals
from sokovan.domain.records import SessionRecord
from sokovan.ports.storage import UnitOfWork
from sokovan.scheduling.sequencers.fair_share import FairShareSequencer
from sokovan.scheduling.trace import Check


async def usage_check(unit: UnitOfWork, session: SessionRecord, group: ScalingGroup) -> tuple[Check, ...]:
    """A check with the usage of the owner; none under another sequencer."""
    if group.scheduler != FairShareSequencer.name:
        return ()
    owner = session.spec.owner
    rows = await unit.ledger.past_usage(group.name, names=[owner.group, owner.user])
    totals = usage_totals(
        rows, now_ms=unit.now_ms, half_life_s=group.usage_half_life_s, slot_weights=group.slot_weights
    )
    used = {(one.scope, one.name): one.weighted for one in totals}
    weights = await _weights(unit, owner)
    texts = [
        f"{scope} {name} has used {used.get((scope, name), 0) // 1000 // weight} s per weight (weight {weight})"
        for (scope, name), weight in weights.items()
    ]
    return (Check(FairShareSequencer.name, "ok", f"{', '.join(texts)}; the least goes first"),)


async def _weights(unit: UnitOfWork, owner: Owner) -> dict[tuple[UsageScope, str], int]:
    """The weights of the group and the user, in the order in which they are compared."""
    group, user = await unit.catalog.find((Group, owner.group), (User, owner.user))
    return {
        (UsageScope.GROUP, owner.group): group.weight if isinstance(group, Group) else 1,
        (UsageScope.USER, owner.user): user.weight if isinstance(user, User) else 1,
    }
