"""Computes the slots of a kernel from its request, its image and defaults."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sokovan.domain.cluster.image import Image
from sokovan.domain.problems import Problem
from sokovan.domain.session_request import KernelGroupRequest, SessionRequest
from sokovan.domain.slots import AMOUNT_MAX, ResourceSlot
from sokovan.orchestrator.sessions.intake.resource_calculator import DEFAULTS, Minimum, ResourceCalculator, named_slots

MIB, GIB = 1 << 20, 1 << 30
TORCH = Image("torch", slots_min=ResourceSlot({"cpu": 2000, "cuda.device": 1}))


def calculated(resources: dict[str, Any], image: Image | None = None) -> ResourceSlot:
    slots, problems = ResourceCalculator().calculate(resources, image, where="resources")
    assert problems == ()
    return slots


def problems(resources: dict[str, Any], image: Image | None = None) -> tuple[Problem, ...]:
    return ResourceCalculator().calculate(resources, image, where="resources").problems


def test_a_kernel_without_resources_gets_the_defaults() -> None:
    assert calculated({}) == DEFAULTS == ResourceSlot({"cpu": 1000, "mem": 256 * MIB})


def test_what_the_image_needs_is_filled_in() -> None:
    assert calculated({}, TORCH) == ResourceSlot({"cpu": 2000, "mem": 256 * MIB, "cuda.device": 1})


def test_what_is_written_goes_before_what_the_image_needs() -> None:
    assert calculated({"cpu": 4}, TORCH)["cpu"] == 4000


@pytest.mark.parametrize(
    ("resources", "slot", "amount"),
    [
        ({"cpu": 0.5}, "cpu", 500),
        ({"cpu": "250m"}, "cpu", 250),
        ({"mem": "16GiB"}, "mem", 16 * GIB),
        ({"memory": "1.5Gi"}, "mem", 1536 * MIB),
        ({"gpu": 8}, "cuda.device", 8),
        ({"gpus": "2"}, "cuda.device", 2),
        ({"cuda.shares": 0.25}, "cuda.shares", 250),
        ({"mem": "1Gi", "shm": "1Gi"}, "mem", 2 * GIB),
        ({"shm": "64Mi"}, "mem", 320 * MIB),
    ],
)
def test_amounts_are_read_as_people_write_them(resources: dict[str, Any], slot: str, amount: int) -> None:
    assert calculated(resources)[slot] == amount


def test_shared_memory_is_no_slot_of_its_own() -> None:
    assert set(calculated({"shm": "1Gi"})) == {"cpu", "mem"}


def test_a_best_effort_kernel_requests_nothing_at_all() -> None:
    assert calculated({"cpu": 0, "mem": 0}) == ResourceSlot()
    assert problems({"cpu": 0, "mem": 0, "gpu": 0}) == ()


@pytest.mark.parametrize("resources", [{"cpu": 0}, {"mem": "0"}, {"cpu": 0, "mem": 0, "gpu": 1}, {"cpu": "0m"}])
def test_zero_cpu_or_memory_beside_other_slots_is_a_problem(resources: dict[str, Any]) -> None:
    found = problems(resources)
    assert [one.where for one in found] == [f"resources/{slot}" for slot in ("cpu", "mem") if slot in resources]
    assert all("0 is too little; omit it for the default" in one.problem for one in found)


def test_zero_devices_are_none() -> None:
    assert "cuda.device" not in calculated({"gpu": 0})


@pytest.mark.parametrize("other", ["cuda.device", "cuda.shares", "cuda.mig-3g.40gb.device"])
def test_slices_of_a_device_beside_whole_ones_or_other_slices_are_a_problem(other: str) -> None:
    small = "cuda.mig-1g.10gb.device"
    [problem] = problems({small: 1, other: 1})
    assert problem.where == f"resources/{small}"
    assert problem.problem.startswith(f"a kernel cannot have {other} beside it: CUDA uses whole devices or slices")
    assert problems({small: 2, other: 0, "rocm.device": 1}) == ()


def test_less_than_the_image_needs_is_a_problem() -> None:
    assert problems({"cpu": 1}, TORCH) == (
        Problem("resources/cpu", "image torch needs 2, 1 is requested"),
    )  # fmt: skip


def test_shared_memory_does_not_make_up_for_memory_that_the_image_needs() -> None:
    image = Image("big", slots_min=ResourceSlot({"mem": GIB}))

    assert [one.where for one in problems({"mem": "512Mi", "shm": "512Mi"}, image)] == ["resources/mem"]


def test_no_kernel_has_less_than_a_hundredth_of_a_cpu() -> None:
    assert [one.problem for one in problems({"cpu": "9m"})] == ["a kernel has at least 0.01"]
    assert calculated({"cpu": "10m"})["cpu"] == 10


def test_the_minimum_of_a_policy_raises_defaults_and_refuses_less() -> None:
    least = (Minimum("the quota of user ada", ResourceSlot({"cpu": 2000, "mem": GIB})),)
    calculate = partial(ResourceCalculator().calculate, image=None, where="resources", minimums=least)

    assert calculate({"cpu": 4}) == (ResourceSlot({"cpu": 4000, "mem": GIB}), ())
    assert calculate({}, image=TORCH).slots == ResourceSlot({"cpu": 2000, "mem": GIB, "cuda.device": 1})
    assert calculate({}, memory=lambda _: MIB).slots["mem"] == GIB
    assert [one.problem for one in calculate({"cpu": 0, "mem": 0}).problems] == [
        "the quota of user ada needs 2, 0 is requested",
        "the quota of user ada needs 1Gi, 0 is requested",
    ]


def test_a_bad_amount_is_reported_once_and_not_also_as_too_little() -> None:
    assert [one.where for one in problems({"cpu": "lots"}, TORCH)] == ["resources/cpu"]


def test_memory_and_shared_memory_together_have_a_limit() -> None:
    assert [one.where for one in problems({"mem": AMOUNT_MAX, "shm": 1})] == ["resources/shm"]


@pytest.mark.slow
@given(
    st.dictionaries(
        st.sampled_from(["cpu", "mem", "gpu", "memory", "shm", "cuda.device", "x y"]) | st.text(max_size=5),
        st.integers() | st.floats() | st.text(max_size=8) | st.none() | st.booleans(),
        max_size=6,
    )
)
def test_every_input_is_parsed_or_reported_with_its_path(resources: dict[str, Any]) -> None:
    slots, found = ResourceCalculator().calculate(resources, TORCH, where="r")

    assert all(0 <= amount <= AMOUNT_MAX for amount in slots.values())
    assert all(one.where.startswith("r/") and one.problem for one in found)


def test_the_slots_that_a_request_names_are_those_that_not_every_agent_has() -> None:
    groups = (KernelGroupRequest(name="a", resources={"tpu.device": 1}), KernelGroupRequest(name="b"))

    assert named_slots(SessionRequest(resources={"gpu": 1, "memory": "1Gi", "shm": 1, "cpu": 2}, groups=groups)) == {
        "cuda.device",
        "tpu.device",
    }
