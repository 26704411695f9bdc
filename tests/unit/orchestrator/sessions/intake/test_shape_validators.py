"""Requests that make no sense by themselves. The table of bad ones is in test_validation."""

from __future__ import annotations

import posixpath
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sokovan.adapters.local.ids import SortableIds
from sokovan.domain.commands import SCRATCH_FOLDERS
from sokovan.domain.owners.policy import ResourcePolicy
from sokovan.domain.owners.tenancy import Role
from sokovan.domain.problems import FolderRefused, Problem
from sokovan.domain.session import Mount, ServicePort
from sokovan.domain.session_request import KernelGroupRequest
from sokovan.orchestrator.sessions.intake import shape_validators as shape
from sokovan.orchestrator.sessions.intake.preparer import Preparer
from sokovan.testing.clock import VirtualClock
from tests.unit.orchestrator.sessions.intake.request_builders import DEFAULT, query_for

PARTS = st.lists(st.sampled_from(["data", "x", "etc", "usr", "home", "a.b"]), min_size=0, max_size=3)


@pytest.mark.parametrize("size", [1, 2, shape.CLUSTER_SIZE_MAX])
def test_a_session_may_have_one_kernel_or_many(size: int) -> None:
    assert list(shape.cluster_size(query_for(size=size))) == []


def test_the_kernels_of_all_groups_are_counted() -> None:
    half = shape.CLUSTER_SIZE_MAX // 2
    groups = tuple(KernelGroupRequest(name=name, size=half + 1) for name in ("a", "b"))

    assert [problem.where for problem in shape.cluster_size(query_for(groups=groups))] == ["size"]


def test_every_policy_that_forbids_a_priority_is_named() -> None:
    policies = (
        ("user alice", ResourcePolicy("p", priority_max=1)),
        ("domain lab", ResourcePolicy("q", priority_max=2)),
    )

    found = [problem.problem for problem in shape.priority(query_for({"policies": policies}, priority=3))]

    assert [text.rpartition("limit of ")[2] for text in found] == ["user alice", "domain lab"]


@pytest.mark.parametrize(
    ("role", "wanted", "fine"),
    [
        (Role.USER, 100, True),
        (Role.USER, 101, False),
        (Role.USER, -1_000_000, True),
        (Role.DOMAIN_ADMIN, 101, False),
        (Role.ADMIN, 1_000_000, True),
    ],
)
def test_where_no_policy_says_how_urgent_work_may_be_the_top_is_for_administrators(
    role: Role, wanted: int, fine: bool
) -> None:
    usual = query_for({"policies": (("user alice", ResourcePolicy("p", sessions_max=1)),)}, priority=wanted)

    found = list(shape.priority(replace(usual, caller=replace(usual.caller, role=role))))

    assert [problem.problem.partition(";")[0] for problem in found] == (
        [] if fine else [f"{wanted} is more than 100, the limit for users without a policy limit"]
    )


def test_a_policy_may_allow_more_than_is_usual() -> None:
    policies = (("user alice", ResourcePolicy("p", priority_max=500)),)

    assert list(shape.priority(query_for({"policies": policies}, priority=500))) == []


def test_a_policy_without_limits_forbids_nothing() -> None:
    policies = (("user alice", ResourcePolicy("p")),)

    assert list(shape.priority(query_for({"policies": policies}, priority=3))) == []
    assert list(shape.kernel_limit(query_for({"policies": policies}, size=100))) == []


def test_a_session_without_a_quota_has_a_default_limit_of_kernels() -> None:
    assert list(shape.kernel_limit(query_for(size=256))) == []
    [refused] = shape.kernel_limit(query_for(size=257))
    assert "257 kernels are more than 256, the limit for one session without a quota" in refused.problem
    more = (("user ada", ResourcePolicy("large", kernels_per_session_max=10_000)),)
    assert list(shape.kernel_limit(query_for({"policies": more}, size=10_000))) == []


def test_what_may_be_evicted_borrows_and_is_moved() -> None:
    assert list(shape.evictions(query_for(borrow=True, migratable=True))) == []
    assert list(shape.evictions(query_for(preemptible=False))) == []


def test_a_start_in_the_past_is_a_start_at_once() -> None:
    assert list(shape.starting_time(query_for(starts_at_ms=1))) == []


def refused(*roots: str, is_alone: bool = False, **options: Any) -> list[Problem]:
    """The problems of the folders of a request in a scaling group with these roots."""
    query = query_for({"is_alone": is_alone}, **options)
    return list(shape.folders(replace(query, scaling_group=replace(DEFAULT, mount_roots=roots))))


@given(PARTS, PARTS)
def test_two_targets_clash_exactly_if_one_lies_in_the_other(first: list[str], second: list[str]) -> None:
    one, other = "/" + "/".join(["m", *first]), "/" + "/".join(["m", *second])
    given_mounts = (Mount("/srv/a", one), Mount("/srv/b", other))

    clash = posixpath.commonpath([one, other]) in {one, other}

    assert bool(list(shape.mounts(query_for(mounts=given_mounts)))) is clash


@pytest.mark.parametrize("top", sorted(SCRATCH_FOLDERS))
def test_what_is_shown_where_it_is_may_lie_in_a_scratch_place(top: str) -> None:
    place, near = f"/{top}/x", f"/{top}/y"
    assert list(shape.mounts(query_for(mounts=(Mount(place, f"{place}/"),)))) == []
    assert [problem.where for problem in shape.mounts(query_for(mounts=(Mount(place, near),)))] == ["mounts/0/target"]


@pytest.mark.parametrize("place", ["/", "/usr/x", "/lib"])
def test_the_system_is_not_covered_even_by_itself(place: str) -> None:
    assert "mounts/0/target" in [problem.where for problem in shape.mounts(query_for(mounts=(Mount(place, place),)))]


@given(PARTS)
def test_a_target_is_a_place_of_the_system_by_its_first_folder_alone(parts: list[str]) -> None:
    target = "/" + "/".join(parts)
    system = not parts or parts[0] in shape.SYSTEM_TARGETS

    assert bool(list(shape.mounts(query_for(mounts=(Mount("/srv/a", target),))))) is system


@pytest.mark.parametrize(
    ("path", "is_closed"),
    [("", False), ("/home/kim", False), ("/tmp/x", False), ("/", True), ("/etc", True), ("/home/kim/.ssh", True)],  # noqa: S108  # a path of the test
)
def test_the_only_user_of_a_system_uses_every_folder_but_those_closed_to_all(path: str, *, is_closed: bool) -> None:
    assert [problem.where for problem in refused(workdir=path, is_alone=True)] == ["workdir"] * is_closed


def test_with_several_users_no_folder_may_be_used_unless_a_root_allows_it() -> None:
    [found] = refused(workdir="/home/kim")
    assert found == Problem("workdir", "/home/kim may not be used; folders that scaling group default allows: none")
    [found] = refused("/data", mounts=(Mount("/data/sets", "/in"), Mount("/database", "/out")))
    assert found.where == "mounts/1/source"
    assert found.problem.endswith("those beneath /data")


def test_a_root_may_name_the_owner_of_the_session() -> None:
    assert (
        refused("/home/{user}", "/work/{group}", workdir="/home/alice/x", mounts=(Mount("/work/vision", "/in"),)) == []
    )
    assert [one.where for one in refused("/home/{user}", workdir="/home/bob")] == ["workdir"]


def test_a_refused_folder_has_a_code_of_its_own() -> None:
    preparer = Preparer(SortableIds(VirtualClock()), lambda: "brave-heron-7")
    with pytest.raises(FolderRefused, match="may not be used") as failed:
        preparer.prepare(query_for(workdir="/home/kim"))
    assert failed.value.code == "folder-refused"
    assert "--mount-root" in failed.value.hint


def test_kernels_without_a_network_have_no_ports_and_no_others() -> None:
    alone = replace(DEFAULT, isolated_network=True)
    many = replace(query_for(size=2, ports=(ServicePort("web", 8080),)), scaling_group=alone)
    assert [problem.where for problem in shape.network(many)] == ["ports", "size"]
    assert list(shape.network(replace(query_for(), scaling_group=alone))) == []
    assert list(shape.network(query_for(size=2))) == []
