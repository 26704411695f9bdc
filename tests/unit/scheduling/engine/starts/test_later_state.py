"""Later state: a trial leaves every number as it was."""

from __future__ import annotations

import numpy as np

from sokovan.scheduling.engine.starts.later_state import room_later, usage_later
from tests.unit.scheduling.engine.evictions.takers import TakerParts, cluster, runs
from tests.unit.scheduling.little_cluster import session


def test_room_and_usage_are_as_before_after_a_trial() -> None:
    context = TakerParts(cluster(runs("r", "a"), session("taker"))).engine.context
    workspace, queue_usage = context.workspace, context.queue_usage
    node = queue_usage.node("default")
    room, allocated = workspace.room.copy(), list(node.allocated)
    with room_later(workspace, workspace.capacity), usage_later(queue_usage, {"default": allocated}):
        assert (workspace.idle == -1).all()
        assert (workspace.future == workspace.capacity).all()
        assert set(node.allocated) == {0}
        assert workspace.releases
    assert np.array_equal(workspace.room, room)
    assert (workspace.releases, workspace.held, node.allocated) == (False, 0, allocated)
