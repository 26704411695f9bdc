"""The action enqueue: admits sessions within the limits of their queues, one session a turn."""

from __future__ import annotations

from typing import Any

from sokovan.domain.cluster.queue import Queue
from sokovan.domain.session import SessionType
from sokovan.scheduling.extensions import QueueView, SchedulingPlugin
from sokovan.scheduling.plan import SchedulingPlan
from sokovan.scheduling.snapshot import SessionWorkload
from tests.unit.scheduling.engine.builders import (
    agent,
    agents,
    code,
    gang,
    kernel,
    limited,
    owner,
    placed,
    planned,
    queue,
    session,
    snapshot,
)

FOUR_CPU = (queue("default", capability="cpu=4"),)


class Recorder(SchedulingPlugin):
    """Admits all sessions but the refused, and records the turns."""

    name = "recorder"

    def __init__(self, *refused: str) -> None:
        self.refused, self.turns = refused, list[str]()
        self.seen = dict[str, dict[str, int]]()

    def session_enqueueable(self, session: SessionWorkload, queue: QueueView) -> str | None:
        self.seen[session.session_id] = dict(queue.allocated)
        return "not today" if session.session_id in self.refused else None

    def session_enqueued(self, session: SessionWorkload, queue: QueueView) -> None:
        del queue
        self.turns.append(str(session.session_id))


def cycle(*sessions: SessionWorkload, queues: tuple[Queue, ...] = FOUR_CPU, **profile: Any) -> SchedulingPlan:
    return planned(snapshot(agents(2, "cpu=8"), *sessions, queues=queues), **profile)


def enqueued(*sessions: SessionWorkload, queues: tuple[Queue, ...] = (), **profile: Any) -> list[str]:
    """The sessions in the order in which they were admitted; nothing is placed."""
    recorder = Recorder()
    planned(snapshot(agents(2, "cpu=8"), *sessions, queues=queues), recorder, actions=("enqueue",), **profile)
    return recorder.turns


def test_a_session_beyond_the_limit_of_its_queue_is_refused_with_the_amounts_before_it_is_tried() -> None:
    plan = cycle(gang("large", 5, "cpu=1"), gang("small", 1, "cpu=1"), actions=("enqueue",))
    verdict = plan.verdicts[0]
    assert (verdict.code, code(plan, "small")) == ("QUEUE_LIMIT", "NOT_TRIED")
    assert verdict.summary == "queue default uses 0 cpu and may use 4; 5 more would exceed it"


def test_only_the_least_that_an_elastic_session_can_start_with_counts() -> None:
    mixed = session("mixed", kernel("large", "cpu=5"), kernel("small", "cpu=1"), min_kernels=1)
    assert placed(cycle(gang("elastic", 9, "cpu=1", min_kernels=2))) == {"elastic": 4}
    assert placed(cycle(mixed)) == {"mixed": 1}


def test_what_the_queue_uses_already_counts() -> None:
    runs = session("runs", kernel("r", "cpu=3", at="a0"))
    plan = cycle(runs, gang("two", 2, "cpu=1"), gang("one", 1, "cpu=1"), actions=("enqueue",))
    assert code(plan, "two") == "QUEUE_LIMIT"
    assert code(plan, "one") == "NOT_TRIED"


def test_a_session_that_has_begun_is_in_already() -> None:
    begun = session("begun", kernel("r", "cpu=1", at="a0"), *gang("k", 8, "cpu=1").kernels)
    assert code(cycle(begun, actions=("enqueue",)), "begun") == "NOT_TRIED"


def test_every_queue_above_limits_the_sessions_below_it() -> None:
    queues = (queue("unit", capability="cpu=4"), queue("x", parent="unit"), queue("y", parent="unit"))
    runs = session("runs", kernel("r", "cpu=3", at="a0"), queue="y")
    plan = cycle(runs, gang("s", 2, "cpu=1", queue="x"), queues=queues, hierarchy=True, actions=("enqueue",))
    assert plan.verdicts[0].summary == "queue unit uses 3 cpu and may use 4; 2 more would exceed it"


def test_a_slot_that_is_not_requested_excludes_no_session() -> None:
    given = snapshot(
        agents(2, "cpu=8 mem=8Gi"),
        session("runs", kernel("r", "cpu=2", at="a0")),
        gang("s", 1, "mem=1Gi"),
        queues=(queue("default", capability="cpu=1"),),
    )
    assert placed(planned(given)) == {"s": 1}


def test_a_session_that_was_admitted_but_finds_no_agents_blocks_no_other() -> None:
    # Both fit the limit of 10 cpu, but not together; each agent has 4 cpu left.
    half_used = [agent(name, "cpu=8", used="cpu=4") for name in ("a0", "a1")]
    sessions = gang("first", 2, "cpu=5"), gang("next", 2, "cpu=2")
    plan = planned(snapshot(half_used, *sessions, queues=(queue("default", capability="cpu=10"),)))
    assert placed(plan) == {"next": 2}


def test_a_session_that_its_owner_may_not_start_gets_that_reason_first() -> None:
    given = snapshot(
        agents(2, "cpu=8"),
        gang("s", 5, "cpu=1", owner=owner("alice")),
        queues=FOUR_CPU,
        limits=limited("alice", slots_max="cpu=2"),
    )
    assert code(planned(given), "s") == "QUOTA_KEYPAIR"


def test_queues_take_turns_with_one_session_each_by_what_they_use_and_were_admitted() -> None:
    queues = (queue("x", deserved="cpu=8"), queue("y", deserved="cpu=4"))
    sessions = [gang(f"{name}{i}", 1, "cpu=2", queue=name) for name in ("x", "y") for i in range(3)]
    assert enqueued(*sessions, queues=queues) == ["x0", "y0", "x1", "x2", "y1", "y2"]


def test_in_a_queue_priority_comes_before_the_order() -> None:
    assert enqueued(gang("first", 1, "cpu=1"), gang("urgent", 1, "cpu=1", priority=1)) == ["urgent", "first"]


def test_a_plugin_that_objects_keeps_the_session_out_however_much_room_there_is() -> None:
    recorder = Recorder("second")
    sessions = [gang(name, 1, "cpu=1") for name in ("first", "second", "third")]
    plan = planned(snapshot(agents(1, "cpu=8"), *sessions), recorder)
    assert placed(plan) == {"first": 1, "third": 1}
    assert code(plan, "second") == "REFUSED_BY_PLUGIN"
    assert [verdict.summary for verdict in plan.verdicts if verdict.session_id == "second"] == ["not today"]
    assert recorder.turns == ["first", "third"]


def test_plugins_see_the_minimum_of_admitted_sessions_as_allocated_until_the_action_ends() -> None:
    recorder = Recorder()
    given = snapshot(agents(1, "cpu=8"), gang("s", 4, "cpu=1", min_kernels=2), gang("t", 1, "cpu=1"))
    assert placed(planned(given, recorder)) == {"s": 4, "t": 1}
    assert recorder.seen == {"s": {"cpu": 0}, "t": {"cpu": 2000}}


def test_a_session_that_validators_refuse_is_neither_asked_about_nor_counted() -> None:
    recorder = Recorder()
    given = snapshot(
        agents(1, "cpu=8"),
        gang("over", 3, "cpu=1", owner=owner("alice")),
        gang("within", 1, "cpu=1", owner=owner("alice")),
        limits=limited("alice", slots_max="cpu=2"),
    )
    planned(given, recorder)
    assert recorder.seen == {"within": {"cpu": 0}}


def test_system_sessions_are_admitted_before_all_others_whatever_their_queue() -> None:
    queues = (queue("urgent", priority=5), queue("low"))
    usual = [gang(name, 1, "cpu=1", queue="urgent") for name in ("a", "b")]
    system = gang("sys", 1, "cpu=1", queue="low", session_type=SessionType.SYSTEM)
    assert enqueued(*usual, gang("c", 1, "cpu=1", queue="low"), system, queues=queues) == ["sys", "a", "b", "c"]
