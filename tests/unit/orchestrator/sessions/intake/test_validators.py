"""Invalid requests as a table: each is refused with its path and its reason."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from sokovan.domain.arrays import read_array
from sokovan.domain.cluster.image import Image
from sokovan.domain.cluster.queue import Queue, QueueState
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.ids import QueueName, ScalingGroupName
from sokovan.domain.owners.policy import ResourcePolicy
from sokovan.domain.owners.tenancy import Group
from sokovan.domain.problems import InvalidRequest, NameTaken
from sokovan.domain.session import Mount, Partition, ServicePort, SessionType
from sokovan.domain.session_request import Caller, KernelGroupRequest
from sokovan.domain.slots import ResourceSlot
from sokovan.orchestrator.sessions.intake.validators import VALIDATORS, problems_with
from sokovan.testing.clock import EPOCH_MS
from tests.unit.orchestrator.sessions.controller_harness import (
    ALICE,
    BOB,
    CAROL,
    ControllerHarness,
    controller_harness,
    session_request,
)
from tests.unit.orchestrator.sessions.intake.request_builders import query_for

YEAR_MS = 366 * 24 * 3600 * 1000
GROUP, PORT = KernelGroupRequest, ServicePort
WORKER = GROUP(name="worker", size=2)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def harness() -> AsyncIterator[ControllerHarness]:
    async with controller_harness() as harness:
        await harness.cluster.put(
            ResourcePolicy("small", kernels_per_session_max=8, priority_max=10),
            Group("vision", "lab", policy="small"),
            ScalingGroup(ScalingGroupName("default"), mount_roots=("/a", "/b")),
            ScalingGroup(ScalingGroupName("tree"), scheduler_opts={"hierarchy": True}),
            ScalingGroup(ScalingGroupName("gpus"), known_slots=("cpu", "mem", "cuda.device")),
            Image("pytorch/pytorch:2.9", slots_min=ResourceSlot({"cpu": 2000, "mem": 4 << 30, "cuda.device": 1})),
            Image("arm-only", architecture="aarch64"),
            Queue(QueueName("closed"), state=QueueState.CLOSED),
            Queue(QueueName("faculty")),
            Queue(QueueName("research"), parent=QueueName("faculty")),
            Queue(QueueName("attic"), state=QueueState.CLOSED),
            Queue(QueueName("boxes"), parent=QueueName("attic")),
        )
        await harness.submit(name="taken")
        await harness.submit(BOB, name="secret-of-bob")
        failed = await harness.submit(name="failed")
        await harness.controller.cancel(failed.session_id, ALICE)
        await harness.submit(name="twin-a")
        await harness.submit(name="twin-b")
        yield harness


# options of the request; path of the problem; part of its text
BAD: list[tuple[dict[str, Any], str, str]] = [
    # arrays
    ({"array": read_array("0-10000")}, "array", "10001 sessions are more than 10000"),
    # cluster size and minimum
    ({"size": 0}, "size", "0 kernels"),
    ({"size": -3}, "size", "-3 kernels"),
    ({"size": 10_001}, "size", "more than 10000"),
    ({"size": 10**15}, "size", "more than 10000"),
    ({"size": 9}, "size", "more than 8, the limit of group vision"),
    ({"size": 2, "groups": (WORKER,)}, "size", "not both"),
    ({"groups": (GROUP(name="a", size=0),)}, "groups/0/size", "0 kernels"),
    ({"groups": (GROUP(name="a", size=5), GROUP(name="b", size=5))}, "size", "10 kernels are more than 8"),
    ({"groups": tuple(GROUP(name=f"g{n}") for n in range(257))}, "groups", "257 groups"),
    ({"partitions": (Partition("p", by="replica"),)}, "partitions/0/by", "no kernel group has a label 'replica'"),
    ({"minimum": -1}, "minimum", "-1 is not between 0 and the number of kernels, 1"),
    ({"size": 4, "minimum": 5}, "minimum", "5 is not between 0 and the number of kernels, 4"),
    (
        {"groups": (GROUP(name="a", size=2, minimum=3),)},
        "groups/0/minimum",
        "3 is not between 0 and the",
    ),
    # kernel groups
    ({"groups": (GROUP(name=""),)}, "groups/0/name", "is not a name"),
    ({"groups": (GROUP(name="bad name"),)}, "groups/0/name", "is not a name"),
    ({"groups": (WORKER, WORKER)}, "groups/1/name", "2 groups are named 'worker'"),
    ({"groups": (GROUP(name="a", image="nowhere"),)}, "groups/0/image", "there is no image 'nowhere'"),
    ({"groups": (GROUP(name="a", resources={"cpu": "lots"}),)}, "groups/0/resources/cpu", "not a number"),
    ({"groups": (GROUP(name="a", environment={"1A": "x"}),)}, "groups/0/environment", "not a name for a variable"),
    # evictions
    ({"preemptible": False, "borrow": True}, "borrow", "not preemptible cannot borrow"),
    ({"preemptible": False, "migratable": True}, "migratable", "not preemptible is never moved"),
    # sort, priority, times
    ({"session_type": SessionType.SYSTEM}, "type", "for administrators"),
    ({"session_type": SessionType.INFERENCE}, "type", "inference sessions belong to deployments"),
    ({"idle_timeout_s": 60}, "idle_timeout", "a session of type batch has no idle timeout"),
    ({"idle_timeout_s": -1, "session_type": SessionType.INTERACTIVE}, "idle_timeout", "not between 1 second"),
    ({"priority": 11}, "priority", "11 is more than 10, the limit of group vision"),
    ({"priority": 2_000_000}, "priority", "not between"),
    ({"priority": -2_000_000}, "priority", "not between"),
    ({"starts_at_ms": EPOCH_MS + YEAR_MS + 60_000}, "starts_at", "more than a year ahead"),
    ({"starts_at_ms": -1}, "starts_at", "before 1970"),
    ({"starts_at_ms": EPOCH_MS, "session_type": SessionType.INTERACTIVE}, "starts_at", "cannot start later"),
    ({"time_limit_s": 0}, "time_limit", "0 s is not between"),
    ({"time_limit_s": -5}, "time_limit", "-5 s is not between"),
    ({"time_limit_s": 10**12}, "time_limit", "is not between"),
    ({"stop_grace_s": -1}, "stop_grace", "-1 s is not between"),
    ({"stop_grace_s": 3601}, "stop_grace", "3601 s is not between"),
    # working directory
    ({"workdir": "/etc"}, "workdir", "/etc is a system folder"),
    ({"workdir": "relative"}, "workdir", "must be an absolute path"),
    # mounts
    ({"mounts": (Mount("/srv/data", "/data"),)}, "mounts/0/source", "/srv/data may not be used"),
    ({"mounts": (Mount("/var/run", "/data"),)}, "mounts/0/source", "/var/run is a system folder"),
    ({"mounts": (Mount("/root/.ssh", "/data"),)}, "mounts/0/source", "keys and settings"),
    ({"workdir": "/home/bob"}, "workdir", "/home/bob may not be used"),
    ({"mounts": (Mount("/srv/data", "/etc"),)}, "mounts/0/target", "/etc is a system folder"),
    ({"mounts": (Mount("/srv/data", "/etc/passwd"),)}, "mounts/0/target", "is a system folder"),
    ({"mounts": (Mount("/srv/data", "/proc/1"),)}, "mounts/0/target", "is a system folder"),
    ({"mounts": (Mount("/srv/data", "/sys"),)}, "mounts/0/target", "is a system folder"),
    ({"mounts": (Mount("/srv/data", "/dev/mem"),)}, "mounts/0/target", "is a system folder"),
    ({"mounts": (Mount("/srv/data", "/usr/lib"),)}, "mounts/0/target", "is a system folder"),
    ({"mounts": (Mount("/srv/data", "/bin"),)}, "mounts/0/target", "is a system folder"),
    ({"mounts": (Mount("/srv/data", "/lib64"),)}, "mounts/0/target", "is a system folder"),
    ({"mounts": (Mount("/srv/data", "/"),)}, "mounts/0/target", "is a system folder"),
    ({"mounts": (Mount("/srv/data", "//"),)}, "mounts/0/target", "is a system folder"),
    ({"mounts": (Mount("/srv/data", "//etc"),)}, "mounts/0/target", "is a system folder"),
    ({"mounts": (Mount("/", "/data"),)}, "mounts/0/source", "is a system folder"),
    ({"mounts": (Mount("/etc/shadow", "/data"),)}, "mounts/0/source", "is a system folder"),
    ({"mounts": (Mount("/proc", "/data"),)}, "mounts/0/source", "is a system folder"),
    ({"mounts": (Mount("/a", "/data"), Mount("/b", "/data"))}, "mounts/1/target", "/data overlaps /data of mounts/0"),
    ({"mounts": (Mount("/a", "/data/x"), Mount("/b", "/data"))}, "mounts/1/target", "overlaps /data/x"),
    ({"mounts": (Mount("/a", "/data"), Mount("/b", "/data/x/"))}, "mounts/1/target", "overlaps /data"),
    ({"mounts": tuple(Mount("/a", f"/d{n}") for n in range(65))}, "mounts", "65 mounts are more than 64"),
    # service ports
    ({"ports": (PORT("web", 8080), PORT("web", 8081))}, "ports/1/name", "2 service ports are named 'web'"),
    ({"ports": (PORT("web", 8080), PORT("api", 8080))}, "ports/0/port", "port 8080 is given 2 times"),
    ({"ports": (PORT("web", 7646),)}, "ports/0/port", "is reserved for the system"),
    ({"ports": tuple(PORT(f"p{n}", 9000 + n) for n in range(17))}, "ports", "17 service ports are more than 16"),
    # images
    ({"image": "pytorch/pytorch:1.0"}, "image", "there is no image 'pytorch/pytorch:1.0'"),
    ({"image": "venv:"}, "image", "there is no image 'venv:'"),
    ({"image": "venv:../../etc"}, "image", "there is no image"),
    ({"image": "no such\nimage"}, "image", "there is no image"),
    ({"image": "host\0"}, "image", "there is no image"),
    ({"image": "arm-only", "architecture": "x86_64"}, "image", "is available for aarch64, not for x86_64"),
    ({"architecture": "x 86"}, "architecture", "is not a valid architecture name"),
    # resources
    ({"resources": {"cpu": -1}}, "resources/cpu", "below zero"),
    ({"resources": {"cpu": "0.0001"}}, "resources/cpu", "not a whole number of millicores"),
    ({"resources": {"mem": "4 apples"}}, "resources/mem", "not a number"),
    ({"resources": {"mem": "4Xi"}}, "resources/mem", "no unit 'Xi'"),
    ({"resources": {"gpu": 0.5}}, "resources/gpu", "cuda.shares=0.25"),
    ({"resources": {"gpu": 1, "cuda.device": 1}}, "resources/cuda.device", "which is given as well"),
    ({"resources": {"memory": "1Gi", "mem": "1Gi"}}, "resources/mem", "which is given as well"),
    ({"resources": {"cpu": 10**18}}, "resources/cpu", "more than"),
    ({"resources": {"cpu": float("nan")}}, "resources/cpu", "not a number"),
    ({"resources": {"cpu": True}}, "resources/cpu", "not a number"),
    ({"resources": {"CPU!": 1}}, "resources/CPU!", "is not a slot name"),
    ({"resources": {"shm": "much"}}, "resources/shm", "not a number"),
    ({"scaling_group": "gpus", "resources": {"tpu.device": 1}}, "resources/tpu.device", "has cpu, cuda.device, mem"),
    (
        {"image": "pytorch/pytorch:2.9", "resources": {"mem": "1Gi"}},
        "resources/mem",
        "image pytorch/pytorch:2.9 needs 4Gi, 1Gi is requested",
    ),
    ({"image": "pytorch/pytorch:2.9", "resources": {"gpu": 0}}, "resources/cuda.device", "needs 1, 0 is requested"),
    ({"scaling_group": "nowhere"}, "scaling_group", "available: default, gpus, tree"),
    ({"scaling_group": "no\0where"}, "scaling_group", "there is no scaling group"),
    # commands and environment
    ({"command": ()}, "command", "of type batch needs a command"),
    ({"command": (), "session_type": SessionType.INFERENCE}, "command", "of type inference needs a command"),
    ({"command": ("",)}, "command", "empty program name"),
    ({"command": ("echo", "a\0b")}, "command", "has a NUL"),
    ({"command": ("x",) * 1001}, "command", "more than 1000 arguments"),
    ({"command": ("x" * 200_000,)}, "command", "131072 bytes"),
    ({"environment": {"SOKOVAN_RANK": "7"}}, "environment", "is not a name for a variable"),
    ({"environment": {"RANK": "7"}}, "environment/RANK", "is set by the system"),
    ({"secrets": {"RANK": "7"}}, "secrets/RANK", "is set by the system"),
    ({"mounts": (Mount("/data", "/home/me/data"),), "workdir": "/home/me"}, "mounts/0/target", "overlaps the working"),
    ({"environment": {"MASTER_ADDR": "evil"}}, "environment/MASTER_ADDR", "is set by the system"),
    ({"environment": {"A B": "x"}}, "environment", "is not a name for a variable"),
    ({"environment": {"A": "x\0y"}}, "environment/A", "text without NUL"),
    ({"environment": {"A": "x" * 70_000}}, "environment", "65536 bytes"),
    ({"environment": {f"A{n}": "x" * 1000 for n in range(66)}}, "environment", "more than 65536"),
    ({"size": 8, "command": ("x" * 3_000_000,)}, "environment", "over all kernels"),
    # labels
    ({"labels": {"team": "x" * 129}}, "labels/team", "at most 128 letters"),
    ({"labels": {"my team": "x"}}, "labels", "1 to 63 letters"),
    ({"labels": {f"l{n}": "x" for n in range(33)}}, "labels", "at most 32 labels"),
    ({"groups": (KernelGroupRequest(name="a", labels={"a": "x" * 300}),)}, "groups/0/labels", "at most 256 characters"),
    ({"require": {"zone": "a\nb"}}, "require", "is not a printable text"),
    # names
    ({"name": "has space"}, "name", "is not 1 to 64"),
    ({"name": "-dash"}, "name", "is not 1 to 64"),
    ({"name": "a/b"}, "name", "is not 1 to 64"),
    ({"name": "x" * 65}, "name", "is not 1 to 64"),
    ({"name": "nul\0"}, "name", "is not 1 to 64"),
    ({"name": "s-01ARZ3NDEKTSV4RRFFQ69G5FAV"}, "name", "the form of an id"),
    ({"name": "taken"}, "name", "is taken by your session s-"),
    # queues and groups
    ({"booking": "nothing"}, "booking", "there is no booking"),
    ({"queue": "nowhere"}, "queue", "there is no queue 'nowhere'"),
    ({"queue": "no where"}, "queue", "there is no queue 'no where'"),
    ({"queue": "closed"}, "queue", "queue closed is closed"),
    ({"queue": "faculty", "scaling_group": "tree"}, "queue", "has child queues"),
    ({"queue": "boxes", "scaling_group": "tree"}, "queue", "queue attic, a parent of boxes, is closed"),
    ({"group": "speech"}, "group", "there is no group 'speech' that you are a member of; yours: vision"),
    ({"group": "no-such"}, "group", "there is no group 'no-such' that you are a member of; yours: vision"),
    ({"group": "a\0b"}, "group", "there is no group"),
    # dependencies
    ({"depends_on": ("missing",)}, "depends_on/0", "there is no session 'missing'"),
    ({"depends_on": ("secret-of-bob",)}, "depends_on/0", "there is no session 'secret-of-bob'"),
    ({"depends_on": ("taken", "failed")}, "depends_on/1", "'failed' has been cancelled (user-requested)"),
    ({"depends_on": ("twin",)}, "depends_on/0", "'twin' is ambiguous: s-"),
    ({"depends_on": ("x y",)}, "depends_on/0", "there is no session 'x y'"),
    ({"depends_on": tuple(f"s{n}" for n in range(300))}, "depends_on", "300 sessions are more than 256"),
]


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("options", "where", "text"), BAD, ids=lambda value: value if isinstance(value, str) else "")
async def test_a_bad_request_is_reported_where_and_why_and_leaves_nothing(
    harness: ControllerHarness, options: dict[str, Any], where: str, text: str
) -> None:
    before = await harness.stored()

    found = await harness.problems(**options)

    assert text in found.get(where, ""), found
    assert await harness.stored() == before


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("more", "kind"), [({}, NameTaken), ({"size": 0}, InvalidRequest)])
async def test_a_name_that_is_taken_is_a_conflict_if_all_else_is_fine(
    harness: ControllerHarness, more: dict[str, Any], kind: type[InvalidRequest]
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await harness.controller.submit(session_request(name="taken", **more), ALICE)
    assert type(refused.value) is kind


@pytest.mark.asyncio(loop_scope="module")
async def test_all_problems_of_a_request_are_reported_together(harness: ControllerHarness) -> None:
    found = await harness.problems(
        size=0,
        priority=-2_000_000,
        name="a b",
        image="nowhere",
        command=(),
        resources={"cpu": "x", "mem": "y"},
        queue="closed",
        group="speech",
        mounts=(Mount("/a", "/etc"),),
        environment={"RANK": "0", "A B": ""},
        depends_on=("missing",),
        scaling_group="nowhere",
        stop_grace_s=-1,
    )

    assert set(found) == {
        "size", "priority", "name", "image", "command", "resources/cpu", "resources/mem", "queue", "group",
        "mounts/0/target", "environment/RANK", "environment", "depends_on/0", "scaling_group", "stop_grace",
    }  # fmt: skip


@pytest.mark.asyncio(loop_scope="module")
async def test_a_problem_of_an_inherited_value_is_reported_once_for_the_session(harness: ControllerHarness) -> None:
    found = await harness.problems(image="nowhere", groups=(WORKER, GROUP(name="chief")))

    assert list(found) == ["image"]
    assert ";" not in found["image"].removesuffix(
        "; available: `host`, `venv:NAME` and those of the catalog (docs/howto/images.md)"
    )


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("caller", "options"),
    [
        (ALICE, {"resources": {"cpu": "500m", "memory": "1.5Gi", "gpu": 2}}),
        (ALICE, {"image": "venv:torch"}),
        (ALICE, {"image": "arm-only"}),
        (ALICE, {"image": "pytorch/pytorch:2.9", "scaling_group": "gpus"}),
        (ALICE, {"priority": 10, "size": 8, "minimum": 0}),
        (ALICE, {"starts_at_ms": EPOCH_MS + YEAR_MS}),
        (ALICE, {"starts_at_ms": 0}),
        (ALICE, {"command": (), "session_type": SessionType.INTERACTIVE}),
        (ALICE, {"queue": "research", "scaling_group": "tree"}),
        (ALICE, {"queue": "faculty", "scaling_group": "default"}),
        (ALICE, {"mounts": (Mount("/a", "/data"), Mount("/b", "/database"))}),
        (ALICE, {"depends_on": ("taken",)}),
        (ALICE, {"ports": (PORT("web", 8080), PORT("metrics", 9090))}),
        (BOB, {"name": "taken"}),
        (CAROL, {"group": "vision"}),
        (CAROL, {"depends_on": ("secret-of-bob",)}),
    ],
)
async def test_what_is_allowed_is_taken(harness: ControllerHarness, caller: Caller, options: dict[str, Any]) -> None:
    session = await harness.submit(caller, **options)

    assert (await harness.cluster.session(session.session_id)).status == "pending"
    await harness.controller.cancel(session.session_id, caller)


@pytest.mark.slow
def test_every_validator_has_something_against_some_request() -> None:
    """Every validator rejects something in the table above."""
    unused = {
        name for name, validate in VALIDATORS.items() if not any(list(validate(query_for(**one))) for one, _, _ in BAD)
    }

    # These need the store, which this test does not have; the tests above and those of the validators use it.
    assert unused <= {"network", "kernel-limit", "dependencies", "group-membership", "isolation"}


def test_the_usual_request_has_no_problem() -> None:
    assert problems_with(query_for()) == []
    assert session_request() == session_request(size=1)
