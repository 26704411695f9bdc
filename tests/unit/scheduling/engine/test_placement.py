"""PlacementAttempt: finds agents for what a session needs now, or changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.ids import AgentId
from sokovan.domain.session import Partition, TopologyConstraint
from sokovan.scheduling.engine.pending_session import PendingReason
from sokovan.scheduling.engine.placement import PlacementAttempt
from sokovan.scheduling.engine.statement import Statement
from sokovan.scheduling.extensions import GangView, QueueView, SchedulingPlugin
from sokovan.scheduling.snapshot import KernelWorkload, SessionWorkload
from sokovan.scheduling.trace import Code
from tests.unit.scheduling.engine.builders import (
    EngineParts,
    agent,
    agents,
    gang,
    hard,
    kernel,
    queue,
    rack,
    session,
    soft,
)

HALLS = (rack("r1", "a0", "a1"), rack("r2", "a2", "a3"), rack("hall", "r1", "r2", tier=2))


@dataclass
class Attempted:
    """The result of an attempt: its statement, and the reason if it failed."""

    engine: EngineParts
    statement: Statement
    reason: PendingReason | None


def attempted(engine: EngineParts, work: SessionWorkload, *, may_reserve: bool = True) -> Attempted:
    statement = engine.statement()
    attempt = PlacementAttempt(engine.pending(work), engine.context, statement, may_reserve=may_reserve)
    attempt.run()
    return Attempted(engine, statement, attempt.reason)


def seats(attempt: Attempted) -> dict[str, str]:
    return {k.kernel_id: attempt.engine.workspace.ids[row] for _, k, row in attempt.statement.placed}


def held(attempt: Attempted) -> dict[str, str]:
    return {k.kernel_id: attempt.engine.workspace.ids[row] for _, k, row in attempt.statement.reserved}


def test_a_session_that_fits_is_placed_and_one_that_does_not_is_rolled_back() -> None:
    engine = EngineParts(*agents(2, "cpu=2"))
    before = engine.workspace.room.tobytes(), engine.workspace.occupancy.tobytes(), engine.workspace.held
    attempt = attempted(engine, gang("s", 5, "cpu=1"))
    assert (seats(attempt), held(attempt)) == ({}, {})
    assert (engine.workspace.room.tobytes(), engine.workspace.occupancy.tobytes(), engine.workspace.held) == before
    assert len(seats(attempted(engine, gang("t", 4, "cpu=1")))) == 4


def test_a_successful_attempt_can_still_be_rolled_back() -> None:
    engine = EngineParts(*agents(2, "cpu=2"))
    before = engine.workspace.room.tobytes()
    attempt = attempted(engine, gang("s", 3, "cpu=1"))
    assert engine.workspace.room.tobytes() != before
    attempt.statement.rollback()
    assert engine.workspace.room.tobytes() == before


def test_how_many_kernels_fitted_is_remembered_for_the_verdict() -> None:
    engine = EngineParts(agent("a0", "cpu=2", used="cpu=1"), agent("a1", "cpu=4", used="cpu=2"))
    pending = engine.pending(gang("s", 4, "cpu=1"))
    assert not PlacementAttempt(pending, engine.context, engine.statement()).run()
    assert pending.kernels_fit == 3


def test_the_reason_is_the_refusal_of_the_queue_where_room_is_not_what_is_short() -> None:
    engine = EngineParts(*agents(2, "cpu=8"), queues=(queue("default", capability="cpu=2"),))
    reason = attempted(engine, gang("s", 3, "cpu=1")).reason
    assert reason is not None
    assert reason.code is Code.QUEUE_LIMIT
    assert reason.refusal is not None
    assert reason.refusal.sentence() == "queue default uses 0 cpu and may use 2; 3 more would exceed it"


def test_the_reason_names_the_shape_that_found_no_room() -> None:
    engine = EngineParts(agent("a0", "cpu=8", used="cpu=7"))
    reason = attempted(engine, session("s", kernel("large", "cpu=2"), kernel("small", "cpu=1"))).reason
    assert reason is not None
    assert (reason.code, reason.shape, reason.topology) == (None, engine.shape("cpu=2"), False)


def test_a_gang_that_fits_only_on_what_is_being_released_reserves_it() -> None:
    engine = EngineParts(agent("a0", "cpu=2"), agent("a1", "cpu=4", used="cpu=4", leaving="cpu=4"))
    attempt = attempted(engine, gang("s", 4, "cpu=1"))
    assert attempt.reason is None
    assert set(seats(attempt).values()) == {"a0"}
    assert set(held(attempt).values()) == {"a1"}


# Topology


def close(count: int, topology: TopologyConstraint, **more: object) -> SessionWorkload:
    return gang("s", count, "cpu=1", topology=topology, **more)


def row_of_four(**used: str) -> list[AgentInfo]:
    return [agent(f"a{index}", "cpu=4", used=used.get(f"a{index}", "")) for index in range(4)]


def test_a_hard_topology_keeps_all_kernels_under_one_hypernode_of_its_tier() -> None:
    engine = EngineParts(*row_of_four(a0="cpu=3"), hypernodes=HALLS)
    assert set(seats(attempted(engine, close(6, hard(1)))).values()) <= {"a2", "a3"}


def test_a_hard_topology_that_has_no_room_fails_however_much_there_is_elsewhere() -> None:
    engine = EngineParts(*row_of_four(a0="cpu=1", a2="cpu=1"), hypernodes=HALLS)
    reason = attempted(engine, close(8, hard(1))).reason
    assert reason is not None
    assert reason.topology
    assert len(seats(attempted(engine, close(8, hard(2))))) == 8


def test_a_lower_tier_is_preferred_however_full_a_higher_one_would_be() -> None:
    engine = EngineParts(*row_of_four(a0="cpu=4", a1="cpu=3"), hypernodes=HALLS)
    assert set(seats(attempted(engine, close(4, hard(2)))).values()) == {"a2"}


def test_inside_a_tier_the_fullest_domain_that_holds_the_session_wins() -> None:
    engine = EngineParts(*row_of_four(a3="cpu=1"), hypernodes=HALLS)
    assert set(seats(attempted(engine, close(5, hard(1)))).values()) == {"a2", "a3"}


def test_a_domain_that_turns_out_too_small_is_rolled_back() -> None:
    racks = (rack("r1", "a0"), rack("r2", "a1"))
    engine = EngineParts(agent("a0", "cpu=4"), agent("a1", "cpu=8"), hypernodes=racks)
    work = session("s", kernel("large", "cpu=3"), kernel("small", "cpu=2"), topology=hard(1))
    assert seats(attempted(engine, work)) == {"large": "a1", "small": "a1"}
    assert engine.idle("a0") == {"cpu": 4000}


def test_a_soft_topology_uses_the_lowest_tier_that_fits() -> None:
    engine = EngineParts(*row_of_four(), agent("b0", "cpu=4"), hypernodes=HALLS)
    assert len(set(seats(attempted(engine, close(8, soft()))).values())) == 2
    engine = EngineParts(*row_of_four(), agent("b0", "cpu=4"), hypernodes=HALLS)
    assert len(set(seats(attempted(engine, close(20, soft()))).values())) == 5


def test_a_hard_topology_that_names_no_tier_fails_closed_with_a_reason() -> None:
    engine = EngineParts(*row_of_four(), hypernodes=HALLS)
    reason = attempted(engine, close(1, hard("pod"))).reason
    assert reason is not None
    assert (reason.code, reason.text) == (Code.TOPOLOGY_IMPOSSIBLE, "there is no tier named pod")


def test_a_session_that_runs_in_part_grows_only_around_what_runs() -> None:
    running = kernel("runs", "cpu=1", at="a2")
    engine = EngineParts(*row_of_four(a0="cpu=3", a2="cpu=4"), hypernodes=HALLS)
    assert seats(attempted(engine, session("s", running, kernel("k", "cpu=1"), topology=hard(1)))) == {"k": "a3"}
    engine = EngineParts(*row_of_four(a2="cpu=4", a3="cpu=4"), hypernodes=HALLS)
    assert seats(attempted(engine, session("s", running, kernel("k", "cpu=1"), topology=hard(1)))) == {}


def test_room_that_is_free_anywhere_allowed_is_better_than_room_that_is_being_released_nearer() -> None:
    leaving = agent("a0", "cpu=4", used="cpu=4", leaving="cpu=4")
    machines = [leaving, *row_of_four(a1="cpu=3", a2="cpu=2", a3="cpu=3")[1:]]
    attempt = attempted(EngineParts(*machines, hypernodes=HALLS), close(4, hard(2)))
    assert (set(seats(attempt).values()), held(attempt)) == ({"a1", "a2", "a3"}, {})
    attempt = attempted(EngineParts(*machines, hypernodes=HALLS), close(4, hard(1)))
    assert (list(seats(attempt).values()), list(held(attempt).values())) == (["a1"], ["a0", "a0", "a0"])


def test_a_session_that_waits_for_a_lower_tier_does_not_start_in_a_higher_one_in_the_next_cycle() -> None:
    # A holder of a reservation is tried without reserving first.
    leaving = agent("a0", "cpu=4", used="cpu=4", leaving="cpu=4")
    machines = [leaving, *row_of_four(a1="cpu=3", a2="cpu=2", a3="cpu=3")[1:]]
    engine = EngineParts(*machines, hypernodes=HALLS)
    engine.context.prefer_lower_tier = True
    before = engine.workspace.room.tobytes()
    attempt = attempted(engine, close(4, hard(2)), may_reserve=False)
    assert (seats(attempt), held(attempt)) == ({}, {})
    assert engine.workspace.room.tobytes() == before
    # In no lower tier is enough released for five: they start in both racks.
    machines = [agent("a0", "cpu=4", used="cpu=4"), *row_of_four(a1="cpu=2", a2="cpu=2", a3="cpu=3")[1:]]
    engine = EngineParts(*machines, hypernodes=HALLS)
    engine.context.prefer_lower_tier = True
    attempt = attempted(engine, close(5, hard(2)), may_reserve=False)
    assert set(seats(attempt).values()) == {"a1", "a2", "a3"}


# Kernel groups


def pods(*names: str, size: int = 2, minimum: int | None = None, **more: object) -> SessionWorkload:
    kernels = [kernel(f"{pod}{index}", "cpu=1", labels={"pod": pod}) for pod in names for index in range(size)]
    return session(
        "s",
        *kernels,
        min_kernels=minimum,
        partitions=(Partition("pods", "pod", size=size, **more),),  # type: ignore[arg-type]  # options of a partition
    )


def test_each_kernel_group_chooses_a_domain_of_its_own() -> None:
    engine = EngineParts(*agents(4, "cpu=1"), hypernodes=HALLS)
    assert seats(attempted(engine, pods("x", "y", topology=hard(1)))) == {
        "x0": "a0",
        "x1": "a1",
        "y0": "a2",
        "y1": "a3",
    }


def test_the_domains_of_kernel_groups_lie_inside_that_of_the_session() -> None:
    engine = EngineParts(*agents(4, "cpu=1"), hypernodes=HALLS)
    work = pods("x", "y", topology=hard(1))
    inside = session("s", *work.kernels, partitions=work.partitions, topology=hard(1))
    assert seats(attempted(engine, inside)) == {}


def test_as_many_kernel_groups_start_as_are_demanded_and_each_is_whole() -> None:
    engine = EngineParts(*agents(4, "cpu=1"), hypernodes=HALLS)
    attempt = attempted(engine, pods("x", "y", "z", minimum=1, min_groups=2, topology=hard(1)))
    assert sorted(seats(attempt)) == ["x0", "x1", "y0", "y1"]


def test_a_kernel_group_that_fits_no_hypernode_is_skipped_for_another() -> None:
    machines = [agent("a0", "cpu=1"), agent("a1", "cpu=1"), agent("a2", "cpu=1", used="cpu=1"), agent("a3", "cpu=2")]
    engine = EngineParts(*machines, hypernodes=HALLS)
    kernels = [kernel(f"x{i}", "cpu=2", labels={"pod": "x"}) for i in range(2)]
    kernels += [kernel(f"y{i}", "cpu=1", labels={"pod": "y"}) for i in range(2)]
    partition = Partition("pods", "pod", size=2, min_groups=1, topology=hard(1))
    attempt = attempted(engine, session("s", *kernels, min_kernels=2, partitions=(partition,)))
    assert set(seats(attempt)) == {"y0", "y1"}


def test_a_kernel_group_that_runs_in_part_is_completed_where_it_runs() -> None:
    engine = EngineParts(*agents(4, "cpu=4"), hypernodes=HALLS)
    kernels = (
        kernel("x0", "cpu=1", labels={"pod": "x"}, at="a3"),
        kernel("x1", "cpu=1", labels={"pod": "x"}),
    )
    partition = Partition("pods", "pod", size=2, min_groups=1, topology=hard(1))
    attempt = attempted(engine, session("s", *kernels, partitions=(partition,)))
    assert seats(attempt)["x1"] in {"a2", "a3"}


def test_a_kernel_group_that_names_no_tier_fails_closed() -> None:
    engine = EngineParts(*agents(4, "cpu=1"), hypernodes=HALLS)
    reason = attempted(engine, pods("x", min_groups=1, topology=hard("pod"))).reason
    assert reason is not None
    assert reason.code is Code.TOPOLOGY_IMPOSSIBLE


def test_kernels_outside_any_partition_are_placed_beside_the_groups() -> None:
    engine = EngineParts(*agents(2, "cpu=4"))
    work = pods("x", min_groups=1)
    attempt = attempted(engine, session("s", kernel("master", "cpu=1"), *work.kernels, partitions=work.partitions))
    assert sorted(seats(attempt)) == ["master", "x0", "x1"]


def test_a_best_effort_kernel_counts_for_its_kernel_group() -> None:
    engine = EngineParts(*agents(1, "cpu=4"))
    kernels = (kernel("x0", "cpu=1", labels={"pod": "x"}), kernel("x1", labels={"pod": "x"}))
    attempt = attempted(engine, session("s", *kernels, partitions=(Partition("pods", "pod", size=2, min_groups=1),)))
    assert seats(attempt)["x0"] == "a0"


# Plugins


class Picky(SchedulingPlugin):
    """Refuses at one point."""

    name = "picky"


class NoKernel(Picky):
    def pre_predicate(self, session: SessionWorkload, kernel: KernelWorkload) -> str | None:
        return f"{session.session_id} keeps {kernel.kernel_id} back" if kernel.group == "back" else None


def test_a_kernel_that_a_plugin_keeps_back_is_left_out_and_the_rest_may_start() -> None:
    engine = EngineParts(*agents(1, "cpu=8"), plugins=(NoKernel(),))
    work = (kernel("k0", "cpu=1", group="back"), kernel("k1", "cpu=1"))
    assert list(seats(attempted(engine, session("s", *work, min_kernels=1)))) == ["k1"]
    reason = attempted(engine, session("s", *work)).reason
    assert reason is not None
    assert (reason.code, reason.text) == (Code.REFUSED_BY_PLUGIN, "s keeps k0 back")


class QueueFull(Picky):
    def allocatable(self, queue: QueueView, kernel: KernelWorkload) -> bool:
        return not (queue.name == "default" and kernel.kernel_id == "k0")


def test_a_plugin_may_keep_a_kernel_out_of_a_queue() -> None:
    engine = EngineParts(*agents(1, "cpu=8"), plugins=(QueueFull(),))
    reason = attempted(engine, session("s", kernel("k0", "cpu=1"))).reason
    assert reason is not None
    assert reason.text == "plugin picky keeps kernel k0 out of queue default"


class NotInFirst(Picky):
    def domains_for_session(self, session: SessionWorkload, domains: Sequence[str]) -> Sequence[str]:
        del session
        return [name for name in domains if name != "r1"]

    def domains_for_group(self, session: SessionWorkload, group: str, domains: Sequence[str]) -> Sequence[str]:
        del session
        return [name for name in domains if not (group == "x" and name == "r1")]


def test_a_plugin_may_rule_out_domains_for_a_session_and_for_a_kernel_group() -> None:
    engine = EngineParts(*agents(4, "cpu=4"), hypernodes=HALLS, plugins=(NotInFirst(),))
    assert set(seats(attempted(engine, close(2, hard(1)))).values()) <= {"a2", "a3"}
    engine = EngineParts(*agents(4, "cpu=4"), hypernodes=HALLS, plugins=(NotInFirst(),))
    assert set(seats(attempted(engine, pods("x", min_groups=1, topology=hard(1)))).values()) <= {"a2", "a3"}


class LastFirst(Picky):
    def domain_order(self, session: SessionWorkload, domains: Sequence[str]) -> Sequence[int] | None:
        del session
        return [int(name == "r2") for name in domains]

    def group_order(self, session: SessionWorkload, group: str) -> tuple[int, ...]:
        del session
        return (-ord(group[0]),)


def test_a_plugin_may_score_domains_and_order_kernel_groups() -> None:
    engine = EngineParts(*agents(4, "cpu=4"), hypernodes=HALLS, plugins=(LastFirst(),))
    assert set(seats(attempted(engine, close(2, hard(1)))).values()) <= {"a2", "a3"}
    engine = EngineParts(*agents(4, "cpu=4"), hypernodes=HALLS, plugins=(LastFirst(),))
    assert list(seats(attempted(engine, pods("x", "y", minimum=1)))) == ["y0", "y1"]


class NotWaiting(Picky):
    def session_pipelined(self, gang: GangView) -> bool:
        return gang.placed + gang.reserved > 2

    def group_ready(self, gang: GangView) -> bool:
        return gang.group != "x"


def test_a_plugin_may_keep_a_session_from_waiting_and_a_kernel_group_from_being_ready() -> None:
    leaving = agent("a0", "cpu=4", used="cpu=4", leaving="cpu=4")
    assert held(attempted(EngineParts(leaving, plugins=(NotWaiting(),)), gang("s", 2, "cpu=1"))) == {}
    assert len(held(attempted(EngineParts(leaving, plugins=(NotWaiting(),)), gang("s", 3, "cpu=1")))) == 3
    engine = EngineParts(*agents(1, "cpu=8"), plugins=(NotWaiting(),))
    assert sorted(seats(attempted(engine, pods("x", "y", minimum=2)))) == ["y0", "y1"]


class NotReady(Picky):
    def session_ready(self, gang: GangView) -> bool:
        return gang.placed > 2


def test_a_plugin_may_keep_a_session_from_starting_with_what_is_placed() -> None:
    engine = EngineParts(*agents(1, "cpu=8"), plugins=(NotReady(),))
    assert seats(attempted(engine, gang("s", 2, "cpu=1"))) == {}


def test_nominated_agents_are_used_while_they_lie_in_the_domain() -> None:
    engine = EngineParts(*agents(4, "cpu=4"), hypernodes=HALLS)
    work = session("s", kernel("k0", "cpu=1", nominated=AgentId("a1")), kernel("k1", "cpu=1"), topology=hard(1))
    assert seats(attempted(engine, work)) == {"k0": "a1", "k1": "a1"}
