"""Changes worth trying for a session that waits."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sokovan.domain.constraints.affinity import read_affinity
from sokovan.domain.constraints.placement import PlacementConstraints
from sokovan.domain.ids import KernelId, SessionId
from sokovan.domain.session import TopologyConstraint, TopologyMode
from sokovan.domain.slots import ResourceSlot
from sokovan.orchestrator.sessions.explain.suggestions import TRIED_MAX, suggestions
from sokovan.scheduling.snapshot import KernelWorkload, SessionWorkload
from sokovan.scheduling.trace import Check, Code, Verdict

S1 = SessionId("s1")


def gang(*slots: dict[str, int], **options: Any) -> SessionWorkload:
    kernels = tuple(KernelWorkload(KernelId(f"k{n}"), ResourceSlot(one)) for n, one in enumerate(slots))
    return SessionWorkload(S1, kernels, **options)


def verdict(code: Code, **options: Any) -> Verdict:
    return Verdict(S1, code, "", **options)


def test_a_held_session_may_be_released() -> None:
    (one,) = suggestions(gang({"cpu": 1000}, gates=("data",)), verdict(Code.HELD))

    assert one.change == "once it is released"
    assert one.session.gates == ()


def test_a_hard_closeness_may_become_soft() -> None:
    session = gang({"cpu": 1000}, {"cpu": 1000}, topology=TopologyConstraint(TopologyMode.HARD, "rack"))

    first = suggestions(session, verdict(Code.TOPOLOGY_NO_ROOM))[0]

    assert first.change == "with --topology soft:rack"
    assert first.session.topology == TopologyConstraint(TopologyMode.SOFT, "rack")


@pytest.mark.parametrize("option", ["affinity", "anti_affinity"])
def test_affinity_to_other_sessions_may_be_left_out(option: str) -> None:
    terms = (read_affinity("app=db"),)
    constraints = PlacementConstraints(("d", "g"), **{option: terms})  # type: ignore[arg-type]  # either option
    kernels = (KernelWorkload(KernelId("k"), ResourceSlot({"cpu": 1}), constraints=constraints),)

    (one,) = suggestions(SessionWorkload(S1, kernels), verdict(Code.AFFINITY))

    assert one.change == f"without --{option.replace('_', '-')}"
    assert one.session.kernels[0].constraints == PlacementConstraints(("d", "g"))


def test_kernels_may_be_as_small_as_the_nearest_agent_has_room() -> None:
    session = gang({"cpu": 8000, "mem": 4 << 30})

    (one,) = suggestions(session, verdict(Code.NOT_ENOUGH_FREE, shortfall=ResourceSlot({"cpu": 2500})))

    assert one.change == "with cpu=5 for each kernel"
    assert one.session.kernels[0].slots == ResourceSlot({"cpu": 5000, "mem": 4 << 30})


def test_a_slot_of_which_there_is_nothing_may_be_done_without() -> None:
    session = gang({"cpu": 1000, "cuda.device": 2})

    (one,) = suggestions(session, verdict(Code.NEVER_FITS, shortfall=ResourceSlot({"cuda.device": 2})))

    assert one.change == "without --gpus"
    assert one.session.kernels[0].slots == ResourceSlot({"cpu": 1000})


@pytest.mark.parametrize("slot", ["cpu", "mem"])
def test_nothing_runs_without_processors_and_memory(slot: str) -> None:
    session = gang({"cpu": 1000, "mem": 1000})

    assert suggestions(session, verdict(Code.NOT_ENOUGH_FREE, shortfall=ResourceSlot({slot: 1000}))) == []


def test_other_devices_are_left_out_by_the_name_of_their_slot() -> None:
    session = gang({"cpu": 1000, "rocm.device": 1})

    (one,) = suggestions(session, verdict(Code.NOT_ENOUGH_FREE, shortfall=ResourceSlot({"rocm.device": 1})))

    assert one.change == "without --slot rocm.device"


def test_a_queue_whose_share_is_all_there_is_is_short_of_room() -> None:
    session = gang({"cpu": 1000, "cuda.device": 2})
    room = Check("room", "short", "free now: 1 of 8 cuda.device")

    (one,) = suggestions(
        session, verdict(Code.QUEUE_OVER_SHARE, checks=(room,), shortfall=ResourceSlot({"cuda.device": 1}))
    )

    assert one.change == "with cuda.device=1 for each kernel"


def test_only_the_larger_kernels_become_smaller() -> None:
    session = gang({"cpu": 8000}, {"cpu": 2000})

    smaller = suggestions(session, verdict(Code.NOT_ENOUGH_FREE, shortfall=ResourceSlot({"cpu": 4000})))[0].session

    assert [kernel.slots["cpu"] for kernel in smaller.kernels] == [4000, 2000]


@pytest.mark.parametrize(("fit", "start"), [(3, 3), (0, 3), (4, 3), (1, 1)])
def test_a_gang_may_start_with_what_fits_or_with_one_less(fit: int, start: int) -> None:
    session = gang(*[{"cpu": 1000}] * 4)

    (one,) = suggestions(session, verdict(Code.FRAGMENTED, kernels_fit=fit, kernels_needed=4))

    assert one.change == f"with --minimum {start}: {start} of 4 kernels"
    assert one.session.min_kernels == start


def test_a_group_that_must_be_there_stays_with_one_kernel() -> None:
    session = gang(*[{"cpu": 1000}] * 4, min_kernels=4, group_minimums={"main": 1, "sub": 3})

    (one,) = suggestions(session, verdict(Code.FRAGMENTED, kernels_fit=2, kernels_needed=4))

    assert one.session.group_minimums == {"main": 1, "sub": 1}


def test_labels_that_no_agent_has_may_be_given_up() -> None:
    session = SessionWorkload(S1, (KernelWorkload(KernelId("k"), ResourceSlot({"cpu": 1}), require={"zone": "moon"}),))

    (one,) = suggestions(session, verdict(Code.NO_LABEL_MATCH))

    assert one.session.kernels[0].require == {}


@pytest.mark.parametrize("code", [code for code in Code if code.startswith(("QUOTA", "QUEUE", "DEPEND", "PENDING"))])
def test_against_a_limit_only_time_helps(code: Code) -> None:
    session = gang(*[{"cpu": 1000}] * 4, topology=TopologyConstraint(TopologyMode.HARD))

    assert suggestions(session, verdict(code, shortfall=ResourceSlot({"cpu": 1}))) == []


@pytest.mark.slow
@given(
    code=st.sampled_from(list(Code)),
    requested=st.lists(st.dictionaries(st.sampled_from(["cpu", "mem"]), st.integers(1, 10**6)), min_size=1, max_size=4),
    lacking=st.dictionaries(st.sampled_from(["cpu", "mem"]), st.integers(0, 10**6)),
    fit=st.integers(0, 5),
)
def test_every_change_asks_for_less_and_there_are_few(
    code: Code, requested: list[dict[str, int]], lacking: dict[str, int], fit: int
) -> None:
    gates = ("data",) if code is Code.HELD else ()
    session = gang(*requested, topology=TopologyConstraint(TopologyMode.HARD), gates=gates)

    found = suggestions(session, verdict(code, shortfall=ResourceSlot(lacking), kernels_fit=fit))

    assert len(found) <= TRIED_MAX
    for change, other in found:
        assert change
        assert other != session
        assert other.gang_size <= session.gang_size
        assert all(one.slots.fits(was.slots) for one, was in zip(other.kernels, session.kernels, strict=True))
