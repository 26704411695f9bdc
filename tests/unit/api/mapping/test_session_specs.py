"""The request of a session; the property tests compare whole sessions with it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sokovan.api.mapping.session_specs import session_spec_view
from sokovan.domain.arrays import ArrayMember
from sokovan.domain.cluster.agent import MOUNTS_ANYWHERE, MOUNTS_LABEL
from sokovan.domain.ids import ArrayId, KernelId, SessionId
from sokovan.domain.session import KernelSpec, Mount, SessionSpec, SessionType
from sokovan.domain.slots import ResourceSlot
from sokovan.wire.api.sessions import SessionSpecView

SLOTS = ResourceSlot({"cpu": 500, "mem": 1 << 30, "cuda.device": 2})
KERNEL = KernelSpec(
    KernelId("k0"), SLOTS, group="main", image="host", command=("python", "a.py"), environment={"SEED": "1"}
)
SPEC = SessionSpec(SessionId("s1"), (KERNEL,), name="train", session_type=SessionType.BATCH)
NOW_MS = 1_700_000_000_000


def view_of(spec: SessionSpec, *, is_owner: bool = True) -> SessionSpecView:
    return session_spec_view(spec, now_ms=NOW_MS, is_owner=is_owner)


def with_kernels(**changes: Any) -> SessionSpec:
    second = replace(KERNEL, kernel_id=KernelId("k1"), group="sub", **changes)
    return replace(SPEC, kernels=(KERNEL, second))


def test_amounts_are_in_the_notation_of_requests() -> None:
    body = view_of(SPEC).body
    assert (body.resources, body.size, body.groups) == ({"cpu": "0.5", "mem": "1Gi", "cuda.device": 2}, 1, [])
    nothing = view_of(replace(SPEC, kernels=(replace(KERNEL, slots=ResourceSlot({})),))).body
    assert nothing.resources == {"cpu": 0, "mem": 0}


def test_equal_kernels_are_a_size_and_others_are_groups() -> None:
    assert (view_of(with_kernels()).body.size, view_of(with_kernels()).body.groups) == (2, [])
    body = view_of(with_kernels(priority=1)).body
    assert (body.size, body.image, [one.name for one in body.groups]) == (1, None, ["main", "sub"])


def test_variables_are_for_the_owner_and_secret_ones_for_nobody() -> None:
    spec = replace(SPEC, secrets=("HF_TOKEN",))
    mine, others = view_of(spec), view_of(spec, is_owner=False)
    assert (mine.body.environment, mine.hidden, mine.secrets) == ({"SEED": "1"}, [], ["HF_TOKEN"])
    assert mine.body.secrets == {}
    assert "--secret-env HF_TOKEN" in mine.notes[0]
    assert (others.body.environment, others.hidden) == ({}, ["SEED"])
    assert "SEED" in others.notes[1]


def test_times_that_have_passed_are_left_out() -> None:
    spec = replace(SPEC, starts_at_ms=NOW_MS, deadline_ms=NOW_MS + 1)
    view = view_of(spec)
    assert (view.left_out, view.body.starts_at, view.body.deadline) == (["starts_at"], None, "2023-11-14T22:13:20.001Z")
    assert "starts_at" in view.notes[0]


def test_a_session_of_an_array_is_an_array_of_its_index_alone() -> None:
    member = ArrayMember(ArrayId("a1"), 17, 100, 0, 99, at_once=5)
    view = view_of(replace(SPEC, name="sweep[17]", array=member))
    assert (view.body.name, view.body.array) == ("sweep", "17%5")
    assert "index 17" in view.notes[0]


def test_labels_that_follow_from_mounts_are_not_requested() -> None:
    kernel = replace(KERNEL, require={MOUNTS_LABEL: MOUNTS_ANYWHERE, "zone": "a"})
    mount = Mount(source="/data", target="/in")
    moved = view_of(replace(SPEC, kernels=(kernel,), mounts=(mount,))).body.require
    kept = view_of(replace(SPEC, kernels=(kernel,))).body.require
    assert moved == {"zone": "a"}
    assert kept == {MOUNTS_LABEL: MOUNTS_ANYWHERE, "zone": "a"}
