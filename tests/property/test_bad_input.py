"""Every input gives a value, or an error that names the wrong part and the reason.

The tables show one malformed input a line: what is wrong, how it is handed in, the code of the error, and the words of
the message that point at the culprit. Below them, random junk goes through every door.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sokovan.domain.cluster.agent import AgentInfo
from sokovan.domain.cluster.image import Image
from sokovan.domain.cluster.queue import Queue, QueueTree
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.cluster.topology import HyperNode, HyperNodeTree
from sokovan.domain.errors import SokovanError
from sokovan.domain.ids import (
    AccessKey,
    AgentId,
    DeploymentId,
    KernelId,
    QueueName,
    ScalingGroupName,
    SessionId,
    checked_name,
)
from sokovan.domain.lifecycle.retry import RetryPolicy
from sokovan.domain.lifecycle.session import SessionIntent
from sokovan.domain.owners.policy import ResourcePolicy
from sokovan.domain.owners.tenancy import Domain, Group, Keypair, Owner, User
from sokovan.domain.serving.deployment import DeploymentSpec
from sokovan.domain.serving.engine import Probe
from sokovan.domain.serving.health import HealthPolicy
from sokovan.domain.serving.replica import Endpoint
from sokovan.domain.serving.revision import RevisionSpec
from sokovan.domain.session import KernelSpec, Partition, SessionSpec, TopologyConstraint, TopologyMode
from sokovan.domain.slot_notation import parse_amount, parse_slots, read_slots
from sokovan.domain.slots import ResourceSlot, SlotLimits
from tests.property.strategies import junk
from tests.quick import at_most

CPU = ResourceSlot({"cpu": 1000})
LARGEST_PLUS_1 = ResourceSlot({"mem": 2**53 + 1})
# Python refuses to write out a number of so many digits, and an error message has to live with that.
HUGE = 10**5000

KERNEL = KernelSpec(KernelId("k1"), CPU)
SESSION = SessionSpec(SessionId("s1"), (KERNEL,))
PARTITION = Partition("workers", by="instance")
CLOSE = TopologyConstraint(TopologyMode.HARD, 1)
RACK = HyperNode("r1", 1, ("a1",))
QUEUE = Queue(QueueName("q1"))
AGENT = AgentInfo(AgentId("a1"), CPU)
POLICY = ResourcePolicy("small")
DEPLOYMENT = DeploymentSpec(deployment_id=DeploymentId("d1"), name="chat")
REVISION = RevisionSpec(variant="vllm", model="llama")
ENDPOINT = Endpoint(KernelId("k1"), 1, AgentId("a1"), 8000)
POOL = ScalingGroup(ScalingGroupName("default"))
IMAGE = Image("python:3.12")
USER = User("alice", "research")
KEYPAIR = Keypair(AccessKey("AK1"), "alice")
HEALTH, RETRY, INTENT, OWNER = HealthPolicy(), RetryPolicy(), SessionIntent(), Owner()

EVERY_SPEC: list[Any] = [
    KERNEL, SESSION, PARTITION, CLOSE, RACK, QUEUE, AGENT, POLICY, DEPLOYMENT, REVISION, ENDPOINT, POOL, IMAGE, USER,
    KEYPAIR, HEALTH, RETRY, INTENT, OWNER, Domain("research"), Group("nlp", "research"),
]  # fmt: skip


def but(valid: Any, **changed: Any) -> Any:
    """The valid spec built anew, with some fields changed."""
    return type(valid)(**{field.name: getattr(valid, field.name) for field in fields(valid)} | changed)


def wrong(value: Any) -> Any:
    """A value of a type that is not wanted."""
    return value


def kernels(*names: str) -> tuple[KernelSpec, ...]:
    return tuple(but(KERNEL, kernel_id=name) for name in names)


def network(*nodes: tuple[str, int, tuple[str, ...]]) -> HyperNodeTree:
    return HyperNodeTree(["a1", "a2"], [HyperNode(*node) for node in nodes])


def queues(**parents: str) -> QueueTree:
    return QueueTree(but(QUEUE, name=name, parent=parent) for name, parent in parents.items())


Case = tuple[str, Callable[[], object], str, str]

SLOT_TEXTS: list[Case] = [
    ("no equals sign", lambda: parse_slots("cpu 2"), "invalid-slots", "'cpu' has no '='"),
    ("no amount", lambda: parse_slots("cpu="), "invalid-slots", "'cpu=': no amount"),
    ("no name", lambda: parse_slots("=2"), "invalid-slots", "'' is not a slot name"),
    ("two equals signs", lambda: parse_slots("cpu==2"), "invalid-slots", "'cpu==2'"),
    ("name in upper case", lambda: parse_slots("CPU=2"), "invalid-slots", "'CPU' is not a slot name"),
    ("name with an empty part", lambda: parse_slots("cuda..device=1"), "invalid-slots", "'cuda..device'"),
    ("name of 65 letters", lambda: parse_slots(f"{'x' * 65}=1"), "invalid-slots", "'xxxxx"),
    ("slot given twice", lambda: parse_slots("cpu=1 cpu=2"), "invalid-slots", "cpu is given twice"),
    ("amount below zero", lambda: parse_slots("mem=-1Gi"), "invalid-slots", "'mem=-1Gi': below zero"),
    ("unit of another kind", lambda: parse_slots("cpu=2GB"), "invalid-slots", "no unit 'GB' for cpu"),
    ("unit in the wrong case", lambda: parse_slots("mem=2gi"), "invalid-slots", "no unit 'gi' for mem"),
    ("unit alone", lambda: parse_slots("mem=Gi"), "invalid-slots", "'mem=Gi'"),
    ("finer than a millicore", lambda: parse_slots("cpu=0.0005"), "invalid-slots", "'cpu=0.0005': not a whole number"),
    ("half a byte", lambda: parse_slots("mem=0.5"), "invalid-slots", "'mem=0.5': not a whole number of bytes"),
    ("half a device", lambda: parse_slots("cuda.device=0.5"), "invalid-slots", "'cuda.device=0.5'"),
    ("scientific notation", lambda: parse_slots("cpu=1e3"), "invalid-slots", "'cpu=1e3'"),
    ("digits of another script", lambda: parse_slots("cpu=\u0663"), "invalid-slots", "'cpu=\u0663'"),
    ("above the largest amount", lambda: parse_slots("mem=9Pi"), "invalid-slots", "'mem=9Pi': more than 8Pi"),
    ("text without end", lambda: parse_slots("cpu=1 " * 1000), "invalid-slots", "longer than 1024 characters"),
    ("number for a text", lambda: parse_slots(wrong(5)), "invalid-slots", "slots 5: it is not a text"),
]

SLOT_MAPPINGS: list[Case] = [
    ("list for a mapping", lambda: read_slots(wrong(["cpu"])), "invalid-slots", "['cpu']: it is not a mapping"),
    ("name that is a number", lambda: read_slots(wrong({7: 1})), "invalid-slots", "7 is not a slot name"),
    ("name that is huge", lambda: read_slots(wrong({HUGE: 1})), "invalid-slots", "int is not a slot name"),
    ("amount that is true", lambda: read_slots({"cpu": True}), "invalid-slots", "'cpu=True': not a number"),
    ("amount that is missing", lambda: read_slots({"cpu": None}), "invalid-slots", "'cpu=None'"),
    ("amount that is a list", lambda: read_slots({"cpu": [2]}), "invalid-slots", "'cpu=[2]'"),
    ("amount not a number", lambda: read_slots({"mem": float("nan")}), "invalid-slots", "'mem=nan'"),
    ("amount without bound", lambda: read_slots({"mem": float("inf")}), "invalid-slots", "'mem=inf'"),
    ("float below zero", lambda: read_slots({"cpu": -0.5}), "invalid-slots", "'cpu=-0.5': below zero"),
    ("float too fine", lambda: read_slots({"cpu": 0.1 + 0.2}), "invalid-slots", "cpu=0.30000000000000004"),
    ("number too large", lambda: read_slots({"fpga": 10**30}), "invalid-slots", "more than 9007199254740992"),
    ("number huge", lambda: parse_amount("cpu", HUGE), "invalid-slots", "cpu=an unprintable int"),
    ("number huge below zero", lambda: parse_amount("cpu", -HUGE), "invalid-slots", "below zero"),
    ("slot that is no name", lambda: parse_amount("No Name", 1), "invalid-slots", "'No Name'"),
    ("stored amount with a part", lambda: ResourceSlot(wrong({"cpu": 0.5})), "invalid-slots", "{'cpu': 0.5}"),
    ("stored amount below zero", lambda: ResourceSlot({"cpu": -1}), "invalid-slots", "{'cpu': -1}"),
    ("limit below zero", lambda: SlotLimits({"cpu": -1}), "invalid-slots", "{'cpu': -1}"),
    ("limits of mixed names", lambda: SlotLimits(wrong({"cpu": 1, 7: 1})), "invalid-slots", "7 is not a slot name"),
]

NAMES: list[Case] = [
    ("empty", lambda: checked_name("", what="agent"), "invalid-name", "'' is not a name for an agent"),
    ("blank inside", lambda: checked_name("a b", what="user"), "invalid-name", "'a b'"),
    ("line break at the end", lambda: checked_name("a\n", what="user"), "invalid-name", r"'a\n'"),
    ("leading dot", lambda: checked_name(".hidden", what="user"), "invalid-name", "'.hidden'"),
    ("129 letters", lambda: checked_name("x" * 129, what="user"), "invalid-name", "'xxxx"),
    ("number", lambda: checked_name(7, what="user"), "invalid-name", "7 is not a name"),
    ("huge number", lambda: checked_name(HUGE, what="user"), "invalid-name", "an unprintable int"),
    ("letters of another script", lambda: checked_name("käse", what="user"), "invalid-name", "'käse'"),
]

TOPOLOGIES: list[Case] = [
    ("tier 0", lambda: but(RACK, tier=0), "invalid-topology", "'r1' has tier 0"),
    ("tier 65", lambda: but(RACK, tier=65), "invalid-topology", "tier 65"),
    ("tier as a text", lambda: but(RACK, tier="1"), "invalid-topology", "tier '1'"),
    ("tier as a truth", lambda: but(RACK, tier=True), "invalid-topology", "tier True"),
    ("tier name with a blank", lambda: but(RACK, tier_name="top rack"), "invalid-name", "'top rack'"),
    ("no members", lambda: but(RACK, members=()), "invalid-topology", "'r1' has no members"),
    ("members as one text", lambda: but(RACK, members="a1"), "invalid-topology", "members 'a1'"),
    ("member that is a number", lambda: but(RACK, members=(7,)), "invalid-name", "7 is not a name"),
    ("name of the root", lambda: but(RACK, name="<root>"), "invalid-name", "'<root>'"),
    ("agent with the root's name", lambda: HyperNodeTree(["<root>"]), "invalid-name", "'<root>'"),
    ("agents as one text", lambda: HyperNodeTree("a1"), "invalid-topology", "'a1'"),
    ("a number for a HyperNode", lambda: HyperNodeTree(["a1"], wrong([7])), "invalid-topology", "7"),
    (
        "HyperNode given twice",
        lambda: network(("r", 1, ("a1",)), ("r", 1, ("a2",))),
        "invalid-topology",
        "'r' is given",
    ),
    (
        "HyperNode like an agent",
        lambda: network(("a1", 1, ("a2",))),
        "invalid-topology",
        "'a1' has the name of an agent",
    ),
    ("member that is nowhere", lambda: network(("r", 1, ("a9",))), "invalid-topology", "a member 'a9'"),
    ("member twice", lambda: network(("r", 1, ("a1", "a1"))), "invalid-topology", "the member 'a1' twice"),
    ("two parents", lambda: network(("r", 1, ("a1",)), ("s", 1, ("a1",))), "invalid-topology", "'a1' that is in 'r'"),
    ("in itself", lambda: network(("r", 1, ("a1", "r"))), "invalid-topology", "cycle: 'r in r'"),
    ("circle", lambda: network(("r", 1, ("s",)), ("s", 2, ("r",))), "invalid-topology", "s in r in s"),
    ("tiers that fall", lambda: network(("r", 2, ("a1",)), ("s", 1, ("r",))), "invalid-topology", "'r' of tier 2"),
]

QUEUES: list[Case] = [
    ("weight 0", lambda: but(QUEUE, weight=0), "invalid-spec", "weight = 0"),
    ("weight as a text", lambda: but(QUEUE, weight="2"), "invalid-spec", "weight = '2'"),
    ("weight beyond the bound", lambda: but(QUEUE, weight=1_000_001), "invalid-spec", "weight = 1000001"),
    (
        "state as a text",
        lambda: but(QUEUE, state="shut"),
        "invalid-spec",
        "state = 'shut': must be one of open, closed",
    ),
    ("own parent", lambda: but(QUEUE, parent="q1"), "invalid-queues", "'q1' is its own parent"),
    ("root with a parent", lambda: but(QUEUE, name="root", parent="q2"), "invalid-queues", "'root'"),
    ("capability as a mapping", lambda: but(QUEUE, capability={"cpu": 1}), "invalid-spec", "capability = {'cpu': 1}"),
    ("guarantee left out", lambda: but(QUEUE, guarantee=None), "invalid-spec", "guarantee = None"),
    (
        "guarantee above capability",
        lambda: but(QUEUE, guarantee=CPU, capability=SlotLimits({"cpu": 999})),
        "invalid-queues",
        "guarantees 1000 cpu but may only use 999",
    ),
    (
        "guarantee above deserved",
        lambda: but(QUEUE, guarantee=CPU, deserved=SlotLimits({"cpu": 999})),
        "invalid-queues",
        "guarantees 1000 cpu but deserves only 999",
    ),
    (
        "deserved above capability",
        lambda: but(QUEUE, deserved=SlotLimits({"cpu": 2}), capability=SlotLimits({"cpu": 1})),
        "invalid-queues",
        "deserves 2 cpu but may only use 1",
    ),
    ("parent that is nowhere", lambda: queues(q1="q9"), "invalid-queues", "'q1' has a parent 'q9'"),
    ("queue given twice", lambda: QueueTree([QUEUE, QUEUE]), "invalid-queues", "'q1' is given twice"),
    ("circle", lambda: queues(q1="q2", q2="q1"), "invalid-queues", "q1 in q2 in q1"),
    ("a number for a queue", lambda: QueueTree(wrong([7])), "invalid-queues", "7"),
    ("a number for queues", lambda: QueueTree(wrong(7)), "invalid-queues", "7"),
]

SESSIONS: list[Case] = [
    ("no kernels", lambda: but(SESSION, kernels=()), "invalid-spec", "kernels = ()"),
    ("kernels as names", lambda: but(SESSION, kernels=("k1",)), "invalid-spec", "kernels = ('k1',)"),
    ("two kernels of one id", lambda: but(SESSION, kernels=kernels("k", "k")), "invalid-spec", "kernels = 'k'"),
    ("gang larger than the session", lambda: but(SESSION, min_kernels=2), "invalid-spec", "min_kernels = 2"),
    ("gang below zero", lambda: but(SESSION, min_kernels=-1), "invalid-spec", "min_kernels = -1"),
    (
        "group minimum too large",
        lambda: but(SESSION, group_minimums={"ps": 1}),
        "invalid-spec",
        "group_minimums.ps = 1: the group has only 0 kernels",
    ),
    ("group minimums as a list", lambda: but(SESSION, group_minimums=["ps"]), "invalid-spec", "minimums = ['ps']"),
    ("group minimum below zero", lambda: but(SESSION, group_minimums={"": -1}), "invalid-spec", "group_minimums. = -1"),
    ("group with a blank", lambda: but(SESSION, group_minimums={"a b": 0}), "invalid-name", "'a b'"),
    ("start before all time", lambda: but(SESSION, starts_at_ms=-1), "invalid-spec", "starts_at_ms = -1: must be 0"),
    ("waits for itself", lambda: but(SESSION, dependencies=("s1",)), "invalid-spec", "dependencies = 's1'"),
    ("dependencies as one text", lambda: but(SESSION, dependencies="s2"), "invalid-spec", "dependencies = 's2'"),
    ("interactive and later", lambda: but(SESSION, starts_at_ms=5), "invalid-spec", "starts_at_ms = 5"),
    ("gates as one text", lambda: but(SESSION, gates="data"), "invalid-spec", "gates = 'data'"),
    ("gate with a blank", lambda: but(SESSION, gates=("my data",)), "invalid-name", "'my data' is not"),
    ("one gate twice", lambda: but(SESSION, gates=("a", "a")), "invalid-spec", "gates = 'a': two gates"),
    ("too many gates", lambda: but(SESSION, gates=tuple(map(str, range(9)))), "invalid-spec", "gates = 9: a session"),
    ("time limit 0", lambda: but(SESSION, time_limit_s=0), "invalid-spec", "time_limit_s = 0"),
    ("priority out of range", lambda: but(SESSION, priority=1_000_001), "invalid-spec", "priority = 1000001"),
    ("type as a text", lambda: but(SESSION, session_type="batch"), "invalid-spec", "session_type = 'batch'"),
    ("preemption as a truth", lambda: but(SESSION, preemption=True), "invalid-spec", "preemption = True"),
    ("preemptible as a text", lambda: but(SESSION, preemptible="no"), "invalid-spec", "preemptible = 'no'"),
    ("owner as a name", lambda: but(SESSION, owner="alice"), "invalid-spec", "owner = 'alice'"),
    ("topology as a text", lambda: but(SESSION, topology="hard"), "invalid-spec", "topology = 'hard'"),
    ("partition with no groups", lambda: but(SESSION, partitions=(but(PARTITION, min_groups=1),)), "invalid-spec",
     "partitions.workers.min_groups = 1: only 0 groups by label instance"),
    ("two partitions of one name", lambda: but(SESSION, partitions=(PARTITION,) * 2), "invalid-spec", "'workers'"),
    ("partition size 0", lambda: but(PARTITION, size=0), "invalid-spec", "size = 0"),
    ("tier 0", lambda: but(CLOSE, highest_tier=0), "invalid-spec", "highest_tier = 0"),
    ("mode as a text", lambda: but(CLOSE, mode="hard"), "invalid-spec", "mode = 'hard'"),
    ("slots as a mapping", lambda: but(KERNEL, slots={"cpu": 1}), "invalid-spec", "slots = {'cpu': 1}"),
    ("slots above the largest", lambda: but(KERNEL, slots=LARGEST_PLUS_1), "invalid-spec", "{'mem': 9007199254740993}"),
    ("label that is a number", lambda: but(KERNEL, labels={"rank": 0}), "invalid-spec", "labels = 0"),
    ("label with a bell", lambda: but(KERNEL, require={"zone": "\a"}), "invalid-spec", r"require = '\x07'"),
    ("image with a blank", lambda: but(KERNEL, image="my image"), "invalid-name", "'my image'"),
    ("nominated nowhere", lambda: but(KERNEL, nominated=""), "invalid-name", "'' is not a name for an agent"),
]  # fmt: skip

OTHER_SPECS: list[Case] = [
    ("agent: incarnation 0", lambda: but(AGENT, incarnation=0), "invalid-spec", "incarnation = 0"),
    ("agent: status as a text", lambda: but(AGENT, status="alive"), "invalid-spec", "status = 'alive'"),
    ("agent: fewer than no kernels", lambda: but(AGENT, kernels_max=-1), "invalid-spec", "kernels_max = -1"),
    ("agent: no scaling group", lambda: but(AGENT, scaling_group=None), "invalid-name", "None"),
    ("agent: images as one text", lambda: but(AGENT, cached_images="py"), "invalid-spec", "cached_images = 'py'"),
    ("policy: limit below zero", lambda: but(POLICY, sessions_max=-1), "invalid-spec", "sessions_max = -1"),
    ("policy: limit with a part", lambda: but(POLICY, priority_max=1.5), "invalid-spec", "priority_max = 1.5"),
    ("policy: slots for limits", lambda: but(POLICY, slots_max=CPU), "invalid-spec", "ResourceSlot(cpu=1000)"),
    ("deployment: too many", lambda: but(DEPLOYMENT, replicas_max=10_001), "invalid-spec", "= 10001"),
    ("deployment: bounds in disorder", lambda: but(DEPLOYMENT, replicas_min=2), "invalid-spec", "replicas_max = 1"),
    ("revision: other host", lambda: Probe(path="//evil"), "invalid-spec", "'//evil'"),
    ("revision: environment", lambda: but(REVISION, environment={"N": 1}), "invalid-spec", "environment.N = 1"),
    ("deployment: owner as a name", lambda: but(DEPLOYMENT, owner="alice"), "invalid-spec", "owner = 'alice'"),
    ("endpoint: port 65536", lambda: but(ENDPOINT, port=65_536), "invalid-spec", "port = 65536"),
    ("endpoint: attempt 0", lambda: but(ENDPOINT, attempt=0), "invalid-spec", "attempt = 0"),
    ("scaling group: options", lambda: but(POOL, scheduler_opts="a=1"), "invalid-spec", "scheduler_opts = 'a=1'"),
    ("scaling group: slots as one text", lambda: but(POOL, known_slots="cpu"), "invalid-spec", "known_slots = 'cpu'"),
    ("scaling group: slot name", lambda: but(POOL, slot_priority=("GPU",)), "invalid-slots", "'GPU'"),
    ("scaling group: time-out 0", lambda: but(POOL, pending_timeout_s=0), "invalid-spec", "pending_timeout_s = 0"),
    ("scaling group: memory 0", lambda: but(POOL, mem_per_gpu_bytes=0), "invalid-spec", "mem_per_gpu_bytes = 0"),
    ("image: digest", lambda: but(IMAGE, digest="sha256:12"), "invalid-spec", "'sha256:12'"),
    ("image: digest as bytes", lambda: but(IMAGE, digest=b"sha256"), "invalid-spec", "b'sha256'"),
    ("image: slots as a mapping", lambda: but(IMAGE, slots_min={"cpu": 1}), "invalid-spec", "slots_min = {'cpu': 1}"),
    ("user: groups as one text", lambda: but(USER, groups="nlp"), "invalid-spec", "groups = 'nlp'"),
    ("user: policy with a blank", lambda: but(USER, policy="my policy"), "invalid-name", "'my policy'"),
    ("keypair: active as a text", lambda: but(KEYPAIR, active="no"), "invalid-spec", "active = 'no'"),
    ("owner: no domain", lambda: but(OWNER, domain=None), "invalid-name", "None is not a name for a domain"),
    ("health: no successes", lambda: but(HEALTH, successes_needed=0), "invalid-spec", "successes_needed = 0"),
    ("health: true failures", lambda: but(HEALTH, failures_needed=True), "invalid-spec", "failures_needed = True"),
    ("health: time to live", lambda: but(HEALTH, ttl_ms="30s"), "invalid-spec", "ttl_ms = '30s'"),
    ("retry: no attempts", lambda: but(RETRY, attempts=0), "invalid-spec", "attempts = 0"),
    ("retry: backoff as a text", lambda: but(RETRY, backoff_s="60"), "invalid-spec", "backoff_s = '60'"),
    ("retry: elsewhere as a number", lambda: but(RETRY, elsewhere=1), "invalid-spec", "elsewhere = 1"),
    ("intent: nothing required", lambda: but(INTENT, required=0), "invalid-spec", "required = 0"),
    ("intent: goal as a number", lambda: but(INTENT, goal=2), "invalid-spec", "goal = 2"),
]

TABLES = {
    "slot text": SLOT_TEXTS,
    "slot mapping": SLOT_MAPPINGS,
    "name": NAMES,
    "topology": TOPOLOGIES,
    "queue": QUEUES,
    "session": SESSIONS,
    "spec": OTHER_SPECS,
}
ROWS = [pytest.param(*case[1:], id=f"{table}: {case[0]}") for table, cases in TABLES.items() for case in cases]


@pytest.mark.parametrize(("hand_in", "code", "culprit"), ROWS)
def test_malformed_input_is_refused_with_a_code_the_culprit_and_a_hint(
    hand_in: Callable[[], object], code: str, culprit: str
) -> None:
    with pytest.raises(SokovanError) as refusal:
        hand_in()

    assert refusal.value.code == code
    assert culprit in refusal.value.message
    assert refusal.value.hint


def every_field(wanted: Callable[[str], bool]) -> pytest.MarkDecorator:
    """Every field of every spec whose declared type is wanted."""
    pairs = [(spec, field) for spec in EVERY_SPEC for field in fields(spec) if wanted(str(field.type))]
    return pytest.mark.parametrize(
        ("spec", "name"),
        [pytest.param(spec, field.name, id=f"{type(spec).__name__}.{field.name}") for spec, field in pairs],
    )


@every_field(lambda kind: kind in {"int", "int | None"})
def test_a_number_that_no_column_can_hold_is_refused(spec: Any, name: str) -> None:
    with pytest.raises(SokovanError, match=name):
        but(spec, **{name: 2**63})


@every_field(lambda _: True)
def test_no_field_takes_a_text_that_is_no_name(spec: Any, name: str) -> None:
    with pytest.raises(SokovanError, match="'no name!'"):
        but(spec, **{name: "no name!"})


@every_field(lambda kind: not kind.endswith("| None"))
def test_no_field_that_is_wanted_can_be_left_out(spec: Any, name: str) -> None:
    with pytest.raises(SokovanError, match="None"):
        but(spec, **{name: None})


@pytest.mark.parametrize("spec", EVERY_SPEC, ids=lambda spec: type(spec).__name__)
def test_a_spec_cannot_be_changed_past_its_checks(spec: Any) -> None:
    with pytest.raises(FrozenInstanceError):
        setattr(spec, fields(spec)[0].name, HUGE)


def hand_in_junk(door: Callable[..., object], *args: Any, **named: Any) -> None:
    """Junk may be taken or refused; any other error than ours escapes and fails the test."""
    refusal = refusal_by(door, *args, **named)
    assert refusal is None or (refusal.hint and refusal.code in str(refusal))


def refusal_by(door: Callable[..., object], *args: Any, **named: Any) -> SokovanError | None:
    try:
        door(*args, **named)
    except SokovanError as refusal:
        return refusal
    return None


@given(junk())
def test_junk_for_a_slot_text_is_read_or_refused(text: Any) -> None:
    hand_in_junk(parse_slots, text)


@given(st.text(alphabet="cpumemgu.=, 0123456789kKMGiBe-+\n\u0663"))
def test_a_text_that_looks_like_slots_is_read_or_refused(text: str) -> None:
    hand_in_junk(parse_slots, text)


@given(junk())
def test_junk_for_a_slot_mapping_is_read_or_refused(mapping: Any) -> None:
    hand_in_junk(read_slots, mapping)


@given(st.dictionaries(st.sampled_from(["cpu", "mem", "cuda.shares", 7, None]), junk()))
def test_junk_for_amounts_is_read_or_refused(mapping: Any) -> None:
    hand_in_junk(read_slots, mapping)
    hand_in_junk(ResourceSlot, mapping)
    hand_in_junk(SlotLimits, mapping)


@given(junk(), junk())
def test_junk_for_one_amount_is_read_or_refused(slot: Any, amount: Any) -> None:
    hand_in_junk(parse_amount, "mem", amount)
    hand_in_junk(parse_amount, slot, amount)


@pytest.mark.parametrize("spec", EVERY_SPEC, ids=lambda spec: type(spec).__name__)
@at_most(60)  # for each of many specs
@given(data=st.data())
def test_junk_in_the_fields_of_a_spec_is_taken_or_refused(spec: Any, data: st.DataObject) -> None:
    names = st.sampled_from([field.name for field in fields(spec)])
    hand_in_junk(but, spec, **data.draw(st.dictionaries(names, junk(), min_size=1, max_size=3)))


@given(st.one_of(junk(), st.lists(st.one_of(st.just("a1"), junk()))), st.one_of(junk(), st.lists(st.just(RACK))))
def test_junk_for_a_topology_is_taken_or_refused(agents: Any, hypernodes: Any) -> None:
    hand_in_junk(HyperNodeTree, agents, hypernodes)


@given(st.dictionaries(st.sampled_from("hijk"), st.tuples(st.integers(1, 3), st.lists(st.sampled_from("hijkab")))))
def test_hypernodes_in_any_tangle_are_taken_or_refused(nodes: dict[str, tuple[int, list[str]]]) -> None:
    def tangle() -> HyperNodeTree:
        return HyperNodeTree(
            ["a", "b"], [HyperNode(name, tier, tuple(members)) for name, (tier, members) in nodes.items()]
        )

    hand_in_junk(tangle)


@given(st.one_of(junk(), st.lists(st.one_of(st.just(QUEUE), junk()))))
def test_junk_for_queues_is_taken_or_refused(given_queues: Any) -> None:
    hand_in_junk(QueueTree, given_queues)


@given(st.dictionaries(st.sampled_from(["root", "p", "q", "r"]), st.sampled_from(["root", "p", "q", "r", "s"])))
def test_queues_in_any_tangle_are_taken_or_refused(parents: dict[str, str]) -> None:
    hand_in_junk(queues, **parents)
