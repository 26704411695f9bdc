"""The preparer: defaults, resolution and validation of requests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sokovan.adapters.local.ids import SortableIds
from sokovan.domain.cluster.image import Image
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.ids import ArrayId, ScalingGroupName
from sokovan.domain.owners.policy import ResourcePolicy
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.problems import InvalidRequest, NameTaken
from sokovan.domain.records import ArrayRecord
from sokovan.domain.session import (
    EndPolicy,
    KernelSpec,
    LostPolicy,
    Mount,
    ServicePort,
    SessionSpec,
    SessionType,
    TopologyConstraint,
    TopologyMode,
)
from sokovan.domain.session_request import KernelGroupRequest
from sokovan.domain.slots import ResourceSlot
from sokovan.orchestrator.sessions.intake.pools import Pool
from sokovan.orchestrator.sessions.intake.preparer import IDLE, Preparer, Resolution, resolve
from sokovan.orchestrator.sessions.intake.resource_calculator import ResourceCalculator
from sokovan.orchestrator.sessions.intake.validation_context import IntakeQuery
from sokovan.orchestrator.sessions.intake.validators import problems_with
from sokovan.testing.clock import VirtualClock
from tests.unit.orchestrator.sessions.controller_harness import ROOT
from tests.unit.orchestrator.sessions.intake.request_builders import DEFAULT, query_for

GROUP = KernelGroupRequest
AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "mem"]), st.text(max_size=4) | st.integers(-3, 3))


CPUS = ScalingGroup(ScalingGroupName("cpus"), known_slots=("cpu", "mem"))
ARRAY = ArrayRecord(ArrayId("a-1"), "b", Owner(), "default", "default", "0-3", 4)
GPUS = ScalingGroup(ScalingGroupName("gpus"), known_slots=("cpu", "mem", "cuda.device"))


def prepared(facts: dict[str, Any] | None = None, **options: Any) -> SessionSpec:
    return preparer().prepare(query_for(facts, **options)).spec


def preparer() -> Preparer:
    return Preparer(SortableIds(VirtualClock()), lambda: "brave-heron-7")


def roles(spec: SessionSpec) -> list[str]:
    return [kernel.group for kernel in spec.kernels]


def test_what_a_request_leaves_open_is_filled_in() -> None:
    spec = prepared()

    assert spec.session_id.startswith("s-")
    assert spec.kernels[0].kernel_id.startswith("k-")
    assert (spec.name, spec.queue, spec.scaling_group) == ("brave-heron-7", "default", "default")
    assert (spec.kernels[0].image, spec.kernels[0].architecture) == ("host", "x86_64")
    assert dict(spec.kernels[0].slots) == {"cpu": 1000, "mem": 256 << 20}
    assert roles(spec) == ["main"]
    assert (spec.min_kernels, spec.group_minimums) == (None, {})


@pytest.mark.parametrize(
    ("target", "image", "needs"),
    [
        ("/data", "host", {"sokovan.mounts": "anywhere"}),
        ("/srv/", "host", {}),
        ("/data", "in-catalog", {}),
    ],
)
def test_a_folder_that_moves_needs_a_machine_that_can_move_it(target: str, image: str, needs: dict[str, str]) -> None:
    facts = {"images": {"in-catalog": (Image("in-catalog"),)}, "is_alone": True}
    spec = prepared(facts, mounts=(Mount("/srv", target),), image=image, require={"rack": "r1"})

    assert dict(spec.kernels[0].require) == {**needs, "rack": "r1"}


def test_what_a_request_says_is_kept() -> None:
    said: dict[str, Any] = {
        "name": "train",
        "priority": 7,
        "topology": TopologyConstraint(TopologyMode.HARD, "rack"),
        "starts_at_ms": 5,
        "time_limit_s": 60,
        "preemptible": False,
        "mounts": (Mount("/srv", "/data"),),
        "stop_grace_s": 3,
        "on_agent_lost": LostPolicy.REQUEUE,
        "ends_with": EndPolicy.MAIN,
        "tolerates_failures": True,
        "ports": (ServicePort("web", 8080),),
    }

    spec = prepared({"is_alone": True}, **said)

    assert {name: getattr(spec, name) for name in said} == said
    assert not spec.kernels[0].preemptible


def test_equal_kernels_are_a_main_one_and_others() -> None:
    spec = prepared(size=3, environment={"A": "1"}, labels={"team": "vision"}, require={"zone": "z"})

    assert roles(spec) == ["main", "sub", "sub"]
    assert len({kernel.kernel_id for kernel in spec.kernels}) == 3
    for kernel in spec.kernels:
        assert (kernel.command, kernel.environment) == (("echo", "hello"), {"A": "1"})
        assert (kernel.labels, kernel.require) == ({"team": "vision"}, {"zone": "z"})


def test_the_kernels_of_a_gang_are_checked_once_for_each_role(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[KernelSpec] = []
    check = KernelSpec.__post_init__

    def noting(one: KernelSpec) -> None:
        checked.append(one)
        check(one)

    monkeypatch.setattr(KernelSpec, "__post_init__", noting)
    spec = prepared(size=20, command=("run",))
    assert [one.group for one in checked] == ["main", "sub"]
    copies = preparer().copied(spec, query_for(size=20, command=("run",)))
    assert len({one.kernel_id for one in (*spec.kernels, *copies.kernels)}) == 40
    assert len(checked) == 2


def test_a_copy_has_the_name_of_its_own_request_which_is_checked() -> None:
    spec = prepared(name="a")
    assert [preparer().copied(spec, query_for(name=name)).name for name in ("b", "c")] == ["b", "c"]
    with pytest.raises(NameTaken, match="taken by your array"):
        preparer().copied(spec, query_for({"namesake": ARRAY}, name="b"))
    with pytest.raises(InvalidRequest, match="letters, digits"):
        preparer().copied(spec, query_for(name="-"))


def test_an_elastic_session_starts_with_its_main_kernel_at_least() -> None:
    spec = prepared(size=4, minimum=2)

    assert (spec.min_kernels, spec.group_minimums) == (2, {"main": 1})
    assert spec.gang_size == 2


def test_groups_without_minimums_start_together() -> None:
    spec = prepared(groups=(GROUP(name="chief"), GROUP(name="worker", size=2)))

    assert roles(spec) == ["chief", "worker", "worker"]
    assert (spec.min_kernels, spec.group_minimums, spec.gang_size) == (None, {}, 3)


def test_kernels_get_the_priority_and_the_nominated_agent_of_their_group() -> None:
    spec = prepared(nominated="a1", groups=(GROUP(name="chief", priority=5), GROUP(name="worker", nominated="a2")))
    assert [(kernel.priority, kernel.nominated) for kernel in spec.kernels] == [(5, "a1"), (0, "a2")]


def test_the_minimums_of_groups_add_up() -> None:
    spec = prepared(groups=(GROUP(name="chief"), GROUP(name="worker", size=4, minimum=2)))

    assert (spec.min_kernels, spec.group_minimums) == (3, {"chief": 1, "worker": 2})


def test_a_minimum_of_the_session_may_be_more_than_those_of_its_groups() -> None:
    spec = prepared(minimum=4, groups=(GROUP(name="chief"), GROUP(name="worker", size=4, minimum=2)))

    assert (spec.min_kernels, spec.group_minimums) == (4, {"chief": 1, "worker": 2})


def test_the_session_belongs_to_the_caller_in_the_requested_group() -> None:
    request = query_for(group="vision")
    by_root = IntakeQuery(request.request, ROOT, request.context)

    assert prepared().owner == Owner("alice", "vision", "lab", prepared().owner.access_key)
    assert preparer().prepare(by_root).spec.owner == replace(ROOT.owner, group="vision")


@pytest.mark.parametrize(
    ("session_type", "policy"),
    [
        (SessionType.BATCH, EndPolicy.ALL),
        (SessionType.INTERACTIVE, EndPolicy.ANY),
    ],
)
def test_what_ends_a_session_follows_from_what_it_is_for(session_type: SessionType, policy: EndPolicy) -> None:
    assert prepared(session_type=session_type).ends_with is policy


def test_an_interactive_session_without_a_command_waits_to_be_worked_in() -> None:
    assert prepared(session_type=SessionType.INTERACTIVE, command=()).kernels[0].command == IDLE


def test_an_error_of_a_domain_constructor_is_a_problem_of_the_request() -> None:
    """A queue name that no validator checks, since no queues are configured."""
    with pytest.raises(InvalidRequest) as refused:
        prepared({"queues": ()}, queue="a b")

    assert refused.value.problems


@pytest.mark.slow
@given(
    size=st.integers(-2, 6),
    minimum=st.none() | st.integers(-2, 7),
    sizes=st.lists(st.tuples(st.integers(-1, 4), st.none() | st.integers(-1, 5)), max_size=3),
    other=st.fixed_dictionaries({}, optional={"name": st.text(max_size=4), "resources": AMOUNTS}),
)
def test_a_request_becomes_a_valid_session_or_is_refused_with_reasons(
    size: int, minimum: int | None, sizes: list[tuple[int, int | None]], other: dict[str, Any]
) -> None:
    groups = tuple(GROUP(name=f"g{n}", size=one, minimum=least) for n, (one, least) in enumerate(sizes))
    request = query_for(size=size, minimum=minimum, groups=groups, **other)
    if problems_with(request) or resolve(request, ResourceCalculator()).problems:
        with pytest.raises(InvalidRequest, match="is invalid"):
            preparer().prepare(request)
        return

    spec = preparer().prepare(request).spec

    assert len(spec.kernels) == (sum(one for one, _ in sizes) if sizes else size)
    assert 1 <= spec.gang_size <= len(spec.kernels)


def resolution(facts: dict[str, Any] | None = None, **options: Any) -> Resolution:
    return resolve(query_for(facts, **options), ResourceCalculator())


def test_the_scaling_group_follows_from_the_slots() -> None:
    found = resolution({"scaling_groups": (CPUS, GPUS)}, resources={"gpu": 1})

    assert found.scaling_group is GPUS
    assert found.problems == ()


def test_the_image_follows_from_the_usual_processor_of_the_scaling_group() -> None:
    images = {"torch": (Image("torch", "x86_64"), Image("torch", "aarch64"))}

    (group,) = resolution({"images": images, "pools": {"default": Pool("aarch64")}}, image="torch").groups

    assert group.image == images["torch"][1]


def test_the_slots_follow_from_the_image() -> None:
    images = {"torch": (Image("torch", slots_min=ResourceSlot({"cpu": 3000})),)}

    (group,) = resolution({"images": images}, image="torch").groups

    assert group.slots["cpu"] == 3000


def test_each_group_has_its_own() -> None:
    groups = (KernelGroupRequest(name="a", resources={"cpu": 2}), KernelGroupRequest(name="b"))

    first, second = resolution(groups=groups, resources={"cpu": 4}).groups

    assert (first.slots["cpu"], second.slots["cpu"]) == (2000, 4000)


def test_unknown_slots_are_reported_for_the_chosen_scaling_group() -> None:
    found = resolution({"scaling_groups": (CPUS,)}, resources={"gpu": 1})

    (problem,) = found.problems
    assert problem.where == "resources/cuda.device"
    assert problem.problem == "scaling group cpus has cpu, mem, not cuda.device"


@pytest.mark.parametrize(
    ("slot", "meant"),
    [("foo", ""), ("cuda", "; did you mean cuda.device?"), ("cuda.devise", "; did you mean cuda.device?")],
)
def test_where_no_slots_are_listed_those_that_agents_have_are_known(slot: str, meant: str) -> None:
    pools = {"default": Pool("x86_64", frozenset({"cuda.device"}))}

    (problem,) = resolution({"pools": pools}, resources={slot: 1}).problems

    assert problem.where == f"resources/{slot}"
    assert problem.problem == f"the agents of scaling group default have cpu, cuda.device, mem, not {slot}{meant}"
    assert resolution({"pools": pools}, resources={"gpu": 1, slot: 0}).problems == ()


def test_while_there_are_no_agents_every_slot_is_fine() -> None:
    pools = {"elsewhere": Pool("x86_64", frozenset({"cpu"}))}

    assert resolution({"pools": pools}, resources={"foo": 1}).problems == ()


def test_a_bad_amount_does_not_hide_that_the_scaling_group_is_missing() -> None:
    found = resolution(scaling_group="nowhere", resources={"cpu": "x"})

    assert found.scaling_group is None
    assert {problem.where for problem in found.problems} == {"scaling_group", "resources/cpu"}


def test_best_effort_kernels_are_refused_where_the_scaling_group_does_not_allow_them() -> None:
    nothing = {"cpu": 0, "mem": 0}
    with pytest.raises(InvalidRequest, match="scaling group default takes no best-effort kernels") as caught:
        prepared(resources=nothing)
    assert [one.where for one in caught.value.problems] == ["resources"]

    allowed = replace(DEFAULT, allow_best_effort=True)
    assert [one.slots for one in prepared({"scaling_groups": (allowed,)}, resources=nothing).kernels] == [
        ResourceSlot()
    ]


def test_a_best_effort_session_goes_to_a_scaling_group_that_allows_them() -> None:
    groups = (CPUS, replace(GPUS, allow_best_effort=True))
    assert prepared({"scaling_groups": groups}, resources={"cpu": 0, "mem": 0}).scaling_group == "gpus"


def test_each_kernel_has_at_least_the_minimum_of_its_owners_policies() -> None:
    policies = (("user ada", ResourcePolicy("floor", slots_min=ResourceSlot({"mem": 1 << 30}))),)
    assert prepared({"policies": policies}).kernels[0].slots["mem"] == 1 << 30
    with pytest.raises(InvalidRequest, match="the quota of user ada needs 1Gi"):
        prepared({"policies": policies}, resources={"mem": "512MiB"})


def test_a_session_keeps_the_digest_that_the_catalog_has_at_its_submission() -> None:
    digest = "sha256:" + "d" * 64
    spec = prepared({"images": {"torch": (Image("torch", digest=digest),)}}, image="torch")

    assert (spec.kernels[0].image, dict(spec.image_digests)) == ("torch", {"torch": digest})
