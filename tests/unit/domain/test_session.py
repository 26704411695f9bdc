"""Session specs: kernels, minimums, topology, dependencies, time."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from sokovan.domain.arrays import ArrayMember
from sokovan.domain.errors import InvalidName, InvalidSpec
from sokovan.domain.ids import ArrayId, KernelId, SessionId
from sokovan.domain.session import (
    EndPolicy,
    KernelSpec,
    LostPolicy,
    Mount,
    Partition,
    ServicePort,
    ServiceProtocol,
    SessionSpec,
    SessionType,
    TopologyConstraint,
    TopologyMode,
)
from sokovan.domain.slots import NO_SLOTS, ResourceSlot

CPU = ResourceSlot({"cpu": 1000})


def kernels(*groups: str, **fields: Any) -> tuple[KernelSpec, ...]:
    """Kernels k0, k1, … of the groups given."""
    return tuple(KernelSpec(KernelId(f"k{index}"), CPU, group=group, **fields) for index, group in enumerate(groups))


def session(*parts: KernelSpec, **fields: Any) -> SessionSpec:
    return SessionSpec(SessionId("s1"), parts or kernels("", "", ""), **fields)


def labelled(*values: str) -> tuple[KernelSpec, ...]:
    """One kernel for each value of the label `instance`."""
    return tuple(KernelSpec(KernelId(f"k{at}"), CPU, labels={"instance": value}) for at, value in enumerate(values))


def test_a_session_starts_whole_unless_it_names_a_smaller_gang() -> None:
    assert session().gang_size == 3
    assert session(min_kernels=2).gang_size == 2


def test_a_gang_of_none_or_one_lets_each_kernel_start_alone() -> None:
    assert session(min_kernels=0).gang_size == session(min_kernels=1).gang_size == 1


def test_what_is_not_said_is_ordinary() -> None:
    spec, partition = session(), Partition("pairs", by="instance")
    assert (spec.session_type, spec.queue, spec.scaling_group, spec.priority) == (
        "interactive",
        "default",
        "default",
        0,
    )
    assert (spec.kernels[0].priority, spec.kernels[0].architecture) == (0, "x86_64")
    assert spec.preemptible
    assert spec.kernels[0].preemptible
    assert (partition.size, partition.min_groups) == (1, 0)


def test_a_gang_may_be_as_large_as_its_session_and_time_as_short_as_a_second() -> None:
    spec = session(
        min_kernels=3, group_minimums={"": 0}, time_limit_s=1, starts_at_ms=0, session_type=SessionType.BATCH
    )
    assert (spec.gang_size, spec.time_limit_s, spec.starts_at_ms) == (3, 1, 0)


def test_a_session_requests_the_sum_of_its_kernels() -> None:
    assert session().requested_slots() == CPU * 3


def test_a_kernel_without_slots_is_best_effort() -> None:
    assert KernelSpec(KernelId("k"), NO_SLOTS).best_effort
    assert not KernelSpec(KernelId("k"), CPU).best_effort


def test_a_kernel_with_another_id_is_one_that_was_made_with_it() -> None:
    options: dict[str, Any] = {
        "group": "sub",
        "image": "python",
        "labels": {"zone": "a"},
        "require": {"disk": "ssd"},
        "priority": 7,
        "preemptible": False,
        "command": ("run", "it"),
        "environment": {"A": "1"},
    }
    slots = ResourceSlot({"cpu": 1_000})
    first, second = (KernelSpec(KernelId(one), slots, **options) for one in ("k1", "k2"))
    assert first.with_id(KernelId("k2")) == second
    assert first.kernel_id == "k1"
    with pytest.raises(InvalidName):
        first.with_id(KernelId("no name"))


def test_a_copied_session_is_one_that_was_made_with_its_ids_name_and_index() -> None:
    options: dict[str, Any] = {
        "priority": 3,
        "labels": {"team": "a"},
        "min_kernels": 1,
        "session_type": SessionType.BATCH,
    }
    first, third = (ArrayMember(ArrayId("a1"), index, 4, 0, 3) for index in (0, 2))
    spec = session(name="sweep[0]", array=first, **options)
    numbers = count(7)
    made = spec.copied(lambda kind: f"{kind}-{next(numbers)}", name="sweep[2]", array=third)
    parts = tuple(KernelSpec(KernelId(f"k-{number}"), CPU) for number in (8, 9, 10))
    assert made == SessionSpec(SessionId("s-7"), parts, name="sweep[2]", array=third, **options)
    assert (spec.session_id, spec.name) == ("s1", "sweep[0]")


def test_the_ids_and_the_name_of_a_copied_session_are_checked() -> None:
    with pytest.raises(InvalidName):
        session().copied(lambda kind: f"no {kind}", name="a")
    with pytest.raises(InvalidName):
        session().copied(lambda kind: kind, name="no name")
    with pytest.raises(InvalidSpec, match="two kernels have this id"):
        session().copied(lambda kind: kind, name="a")


def test_a_group_minimum_is_at_most_the_size_of_its_group() -> None:
    gang = kernels("ps", "worker", "worker")
    assert session(*gang, group_minimums={"ps": 1, "worker": 2}).group_minimums["worker"] == 2
    with pytest.raises(InvalidSpec, match=r"group_minimums\.ps = 2: the group has only 1 kernels"):
        session(*gang, group_minimums={"ps": 2})


def test_kernels_without_a_group_are_a_group_too() -> None:
    assert session(group_minimums={"": 3}).group_minimums == {"": 3}


def test_a_partition_groups_kernels_by_their_label() -> None:
    pairs = Partition("pairs", by="instance", size=2, min_groups=2)
    assert session(*labelled("a", "a", "b", "b", "c"), partitions=(pairs,)).partitions == (pairs,)
    with pytest.raises(
        InvalidSpec, match=r"partitions\.pairs\.min_groups = 2: only 1 groups by label instance have 2 kernels"
    ):
        session(*labelled("a", "a", "b", "c"), partitions=(pairs,))


def test_two_partitions_may_use_one_label_under_two_names() -> None:
    both = (Partition("all", by="instance"), Partition("pairs", by="instance", size=2))
    assert session(partitions=both).partitions == both
    with pytest.raises(InvalidSpec, match="partitions = 'all': two partitions have this name"):
        session(partitions=(both[0], both[0]))


def test_only_a_batch_session_may_start_later() -> None:
    assert session(session_type=SessionType.BATCH, starts_at_ms=1000).starts_at_ms == 1000
    for kind in (SessionType.INTERACTIVE, SessionType.INFERENCE):
        with pytest.raises(InvalidSpec, match="only a batch session may start later"):
            session(session_type=kind, starts_at_ms=1000)


def test_a_session_waits_for_others_but_not_for_itself() -> None:
    assert session(dependencies=("s0",)).dependencies == ("s0",)
    with pytest.raises(InvalidSpec, match="a session cannot depend on itself"):
        session(dependencies=("s0", "s1"))
    with pytest.raises(InvalidName, match="'s 0' is not a name for a session"):
        session(dependencies=("s 0",))


def test_a_session_of_more_kernels_than_there_may_be_is_refused_by_their_number() -> None:
    with pytest.raises(InvalidSpec, match="kernels = 100001: a session has at most 100000 kernels"):
        session(*kernels("") * 100_001)
    with pytest.raises(InvalidSpec, match="kernels = 'k0': two kernels have this id"):
        session(*kernels("") * 100_000)


def test_two_kernels_of_one_id_are_refused_by_that_id() -> None:
    with pytest.raises(InvalidSpec, match="kernels = 'k0': two kernels have this id"):
        session(*kernels("a"), *kernels("b"))


@pytest.mark.parametrize("priority", [-1_000_000, 0, 1_000_000])
def test_priorities_go_both_ways_up_to_a_million(priority: int) -> None:
    assert session(priority=priority).priority == priority
    with pytest.raises(InvalidSpec, match="priority = 1000001"):
        kernels("", priority=1_000_001)
    with pytest.raises(InvalidSpec, match="priority = -1000001"):
        session(priority=-1_000_001)


@pytest.mark.parametrize("tier", [None, 1, 64, "rack"])
def test_closeness_is_bounded_by_a_tier_by_number_by_name_or_not_at_all(tier: int | str | None) -> None:
    assert TopologyConstraint(TopologyMode.SOFT, tier).highest_tier == tier


@pytest.mark.parametrize("tier", [0, -1, 1.0, True])
def test_a_tier_that_cannot_be_is_refused(tier: Any) -> None:
    with pytest.raises(InvalidSpec, match="topology constraint: highest_tier"):
        TopologyConstraint(TopologyMode.HARD, tier)


def test_a_tier_by_name_has_a_name() -> None:
    with pytest.raises(InvalidName, match="'' is not a name for a tier"):
        TopologyConstraint(TopologyMode.HARD, "")


def test_session_and_partition_may_each_be_close_in_their_own_way() -> None:
    near, far = TopologyConstraint(TopologyMode.HARD, 1), TopologyConstraint(TopologyMode.SOFT, "row")
    spec = session(topology=far, partitions=(Partition("pairs", by="instance", topology=near),))
    assert (spec.topology, spec.partitions[0].topology) == (far, near)
    with pytest.raises(InvalidSpec, match="partition pairs: topology = 1"):
        Partition("pairs", by="instance", topology=1)  # type: ignore[arg-type]  # a caller without a type checker


def test_a_kernel_may_be_nominated_for_an_agent_and_bound_to_labels() -> None:
    (kernel,) = kernels("worker", nominated="a1", require={"zone": "west"}, image="torch:2.9")
    assert (kernel.nominated, kernel.require, kernel.image) == ("a1", {"zone": "west"}, "torch:2.9")


@pytest.mark.parametrize("field", ["group", "image"])
@pytest.mark.parametrize("wrong", [None, 0, [], "a b"])
def test_a_group_or_image_is_a_name_or_left_blank(field: str, wrong: Any) -> None:
    named: dict[str, Any] = {field: wrong}
    with pytest.raises(InvalidName, match=f"is not a name for an? {field}"):
        KernelSpec(KernelId("k"), CPU, **named)


def test_what_is_not_said_about_the_end_is_ordinary() -> None:
    spec = session()
    assert (spec.name, spec.mounts, spec.stop_grace_s) == ("", (), 10)
    assert (spec.on_agent_lost, spec.ends_with, spec.tolerates_failures) == (LostPolicy.END, EndPolicy.ANY, False)
    assert (spec.kernels[0].command, spec.kernels[0].environment) == ((), {})


def test_a_session_may_say_what_it_is_called_and_how_it_ends() -> None:
    mounts = (Mount("/data", "/mnt"), Mount("/scratch", "/work", read_only=False))
    spec = session(
        name="train-1",
        mounts=mounts,
        stop_grace_s=0,
        on_agent_lost=LostPolicy.REQUEUE,
        ends_with=EndPolicy.ALL,
        tolerates_failures=True,
    )
    assert (spec.name, spec.mounts, spec.ends_with) == ("train-1", mounts, "all")
    assert mounts[0].read_only
    assert session(stop_grace_s=3600).stop_grace_s == 3600


@pytest.mark.parametrize("name", ["a b", "-x", "x\0", "ä", "x" * 129, 3, None])
def test_a_session_is_called_by_a_name_or_not_at_all(name: Any) -> None:
    with pytest.raises(InvalidName, match="is not a name for a session"):
        session(name=name)


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("stop_grace_s", -1),
        ("stop_grace_s", 3601),
        ("stop_grace_s", 1.5),
        ("stop_grace_s", True),
        ("on_agent_lost", "requeue"),
        ("ends_with", "all"),
        ("ends_with", None),
        ("tolerates_failures", 1),
        ("mounts", [Mount("/a", "/b")]),
        ("mounts", ("/a",)),
        ("workdir", "a/b"),
        ("workdir", "/a/../b"),
    ],
)
def test_end_options_have_the_right_types(field: str, wrong: Any) -> None:
    with pytest.raises(InvalidSpec) as refused:
        session(**{field: wrong})
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("source", "target", "field"),
    [
        ("data", "/mnt", "source"),
        ("/data/../etc", "/mnt", "source"),
        ("", "/mnt", "source"),
        ("/data", "mnt", "target"),
        ("/data", "/mnt/../../etc", "target"),
        ("/data", "/mnt\0", "target"),
    ],
)
def test_a_mount_leads_from_a_plain_path_to_a_plain_path(source: str, target: str, field: str) -> None:
    with pytest.raises(InvalidSpec, match="must be an absolute path") as refused:
        Mount(source, target)
    assert refused.value.field == field


def test_a_mount_is_read_only_or_not() -> None:
    with pytest.raises(InvalidSpec, match="read_only"):
        Mount("/a", "/b", read_only="no")  # type: ignore[arg-type]  # a caller without a type checker


def test_a_kernel_has_a_command_and_an_environment() -> None:
    (kernel,) = kernels("", command=("python", "train.py"), environment={"LR": "0.1"})
    assert (kernel.command, kernel.environment) == (("python", "train.py"), {"LR": "0.1"})
    with pytest.raises(InvalidSpec, match="kernel k0: command"):
        kernels("", command="python train.py")
    with pytest.raises(InvalidSpec, match="kernel k0: environment"):
        kernels("", environment={"SOKOVAN_RANK": "1"})


def test_a_service_has_a_name_and_an_unprivileged_port() -> None:
    assert ServicePort("web", 8080).protocol is ServiceProtocol.HTTP
    assert ServicePort("web").port == 0
    for port in (-1, 80, 1023, 65_536):
        with pytest.raises(InvalidSpec, match="port"):
            ServicePort("web", port)
    with pytest.raises(InvalidName):
        ServicePort("the web", 8080)
    with pytest.raises(InvalidSpec, match="ports"):
        session(ports=("web",))
