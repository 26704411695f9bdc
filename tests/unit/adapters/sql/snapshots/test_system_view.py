"""The system in memory, from which snapshots are put together."""

from types import SimpleNamespace
from typing import Any

import pytest

from sokovan.adapters.sql.schema.spec_codec import spec_text
from sokovan.adapters.sql.schema.tables import SESSIONS_SLOT
from sokovan.adapters.sql.snapshots.system_view import SystemView
from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.cluster.topology import HyperNode
from sokovan.domain.cluster.topology_rules import Topology
from sokovan.domain.errors import ObjectNotFound
from sokovan.domain.ids import AgentId, KernelId, ScalingGroupName, SessionId
from sokovan.domain.owners.policy import ResourcePolicy, Scope
from sokovan.domain.slots import ResourceSlot
from sokovan.scheduling.carried_state import CarriedState
from sokovan.scheduling.snapshot import OwnerUsage, Reservation, SystemSnapshot
from sokovan.testing.stored_cluster import session_spec

HERE, THERE = ScalingGroupName("here"), ScalingGroupName("there")


def view() -> SystemView:
    made = SystemView()
    made.set_scaling_groups([ScalingGroup(name=HERE), ScalingGroup(name=THERE)])
    return made


def put(made: SystemView, name: str, status: str = "pending", *, result: str | None = None, **options: Any) -> None:
    """Add a session of one kernel in this status to a scaling group."""
    group = options.pop("group", HERE)
    spec = session_spec(name, slots={"cpu": 1000}, **options)
    row = SimpleNamespace(
        session_id=name, status=status, place=1, body=spec_text(spec), hypernode=None, failed_starts="[]",
        since_ms=0, evictions="[]", checkpoint_ms=None, loan=None,
        scaling_group=group, result=result, array_id=None,
        queue="default", user="default", group="default", domain="default", access_key="default",
    )  # fmt: skip
    agent = None if status in {"pending", "cancelled"} else "a1"
    kernel = SimpleNamespace(
        kernel_id=f"{name}.0", status=status, agent_id=agent, slots='{"cpu":1000}', ports="{}", rank=None
    )
    made.put_session(row, [kernel], ended=status in {"terminated", "cancelled"} or result is not None)
    made.changed()


def agent(name: str = "a1", group: ScalingGroupName = HERE, *, kernels: int = 1) -> AgentInfo:
    taken = ResourceSlot({"cpu": 1000 * kernels})
    return AgentInfo(AgentId(name), ResourceSlot({"cpu": 9000}), taken, scaling_group=group, kernel_count=kernels)


def test_an_unknown_scaling_group_is_not_found() -> None:
    with pytest.raises(ObjectNotFound):
        view().snapshot(ScalingGroupName("nowhere"))


def test_a_session_is_shown_in_its_own_scaling_group_until_it_ends() -> None:
    made = view()
    put(made, "s1")
    put(made, "s2", group=THERE)
    assert [one.session_id for one in made.snapshot(HERE).sessions] == ["s1"]
    put(made, "s1", "cancelled")
    assert made.snapshot(HERE).sessions == ()


def test_a_kernel_on_its_way_out_is_releasing_until_it_is_gone() -> None:
    made = view()
    made.put_agent(agent())

    def releasing() -> tuple[int, int]:
        [shown] = made.snapshot(HERE).agents
        return shown.releasing_slots["cpu"], shown.releasing_count

    put(made, "s1", "running")
    assert releasing() == (0, 0)
    put(made, "s1", "terminating")
    assert releasing() == (1000, 1)
    # Ended by force: the session leaves, what it holds stays.
    put(made, "s1", "terminating", result="failure")
    assert made.snapshot(HERE).sessions == ()
    assert releasing() == (1000, 1)
    put(made, "s1", "terminated")
    assert releasing() == (0, 0)


def test_a_result_is_kept_while_a_session_depends_on_it() -> None:
    made = view()
    put(made, "first")
    put(made, "s1", dependencies=(SessionId("first"),))
    put(made, "s2", dependencies=(SessionId("first"),))
    put(made, "first", "terminated", result="success")
    put(made, "other", "terminated", result="success")
    assert made.snapshot(HERE).outcomes == {"first": True}
    put(made, "s1", "cancelled")
    assert made.snapshot(HERE).outcomes == {"first": True}
    put(made, "s2", "cancelled")
    assert made.snapshot(HERE).outcomes == {}


def test_sessions_are_counted_in_addition_to_slots() -> None:
    made = view()
    made.put_usage("user", "u", "cpu", 5)
    made.put_usage("user", "u", SESSIONS_SLOT, 2)
    made.changed()
    assert made.snapshot(HERE).usage[Scope.USER] == {"u": OwnerUsage(ResourceSlot({"cpu": 5}), sessions=2)}
    made.put_usage("user", "u", "cpu", 0)
    made.changed()
    assert made.snapshot(HERE).usage[Scope.USER]["u"].slots == ResourceSlot()


@pytest.mark.parametrize("scope", list(Scope))
def test_what_waits_elsewhere_counts_for_owners_with_such_a_limit(scope: Scope) -> None:
    made = view()
    put(made, "s1", group=THERE)
    put(made, "s2", "running", group=THERE)
    put(made, "s3")
    assert made.snapshot(HERE).pending_elsewhere == ()
    made.limits = {scope: {"default": ResourcePolicy("p", pending_sessions_max=1)}}
    made.changed()
    assert [session.session_id for session in made.snapshot(HERE).pending_elsewhere] == ["s1"]


def test_a_hypernode_shows_the_members_that_a_scaling_group_has() -> None:
    made = view()
    made.put_agent(agent("a1"))
    made.put_agent(agent("a2", THERE))
    made.put_agent(agent("a3", THERE))
    racks = (
        HyperNode("row1", 2, ("rack1", "rack2")),
        HyperNode("rack1", 1, ("a1", "a2")),
        HyperNode("rack2", 1, ("a3",)),
    )
    made.hypernodes.set_topology(Topology(hypernodes=racks))
    made.changed()
    shown = [(node.name, node.members) for node in made.snapshot(HERE).hypernodes]
    assert shown == [("rack1", ("a1",)), ("row1", ("rack1",))]
    assert [node.name for node in made.snapshot(THERE).hypernodes] == ["rack1", "rack2", "row1"]


def test_a_reservation_is_shown_while_its_session_is() -> None:
    made = view()
    put(made, "s1")
    kept = tuple(Reservation(SessionId(name), ((KernelId(f"{name}.0"), AgentId("a1")),)) for name in ("s1", "s2"))
    carried = CarriedState(kept, {"x": AgentId("a1")})
    made.carry(HERE, carried)
    made.changed()
    shown = made.snapshot(HERE)
    assert (shown.reservations, dict(shown.cursors)) == (kept[:1], {"x": "a1"})
    assert (made.carried(HERE), made.carried(THERE)) == (carried, CarriedState())
    made.carry_all({THERE: carried})
    assert (made.carried(HERE), made.carried(THERE)) == (CarriedState(), carried)


def test_a_snapshot_that_was_given_out_does_not_change() -> None:
    made = view()
    made.put_agent(agent())
    put(made, "s1")
    before = made.snapshot(HERE)
    known = SystemSnapshot(**{name: getattr(before, name) for name in ("agents", "sessions", "usage", "outcomes")})
    put(made, "s2")
    made.put_agent(agent(kernels=2))
    made.put_usage("user", "u", "cpu", 5)
    made.changed()
    assert made.snapshot(HERE) != before
    assert (before.agents, before.sessions, before.usage) == (known.agents, known.sessions, known.usage)
