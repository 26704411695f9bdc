"""Content validators; the table of invalid requests is in test_validators."""

from __future__ import annotations

import pytest

from sokovan.domain.arrays import read_array
from sokovan.domain.cluster.image import Image
from sokovan.domain.problems import Problem
from sokovan.domain.session import SessionType
from sokovan.domain.session_request import KernelGroupRequest
from sokovan.orchestrator.sessions.intake import content_validators as content
from tests.unit.orchestrator.sessions.intake.request_builders import query_for


@pytest.mark.parametrize(
    ("session_type", "image", "needs"),
    [
        (SessionType.BATCH, "host", True),
        (SessionType.BATCH, "torch", True),
        (SessionType.INFERENCE, "host", True),
        (SessionType.INFERENCE, "torch", False),
        (SessionType.INTERACTIVE, "host", False),
        (SessionType.SYSTEM, "host", False),
    ],
)
def test_what_would_have_nothing_to_do_needs_a_command(session_type: SessionType, image: str, needs: bool) -> None:
    assert content.needs_command(session_type, image) is needs


def test_a_group_may_bring_the_command_that_the_session_lacks() -> None:
    worker = KernelGroupRequest(name="worker", command=("work",))
    idle = KernelGroupRequest(name="idle")

    assert list(content.commands(query_for(command=(), groups=(worker,)))) == []
    assert [one.where for one in content.commands(query_for(command=(), groups=(worker, idle)))] == ["command"]


def test_an_image_that_is_there_for_another_processor_says_for_which() -> None:
    known = {"torch": (Image("torch", "aarch64"), Image("torch", "x86_64"))}

    assert list(content.images(query_for({"images": known}, image="torch"))) == []
    assert list(content.images(query_for({"images": known}, image="torch", architecture="riscv64"))) == [
        Problem("image", "image torch is available for aarch64, x86_64, not for riscv64")
    ]


def test_every_bad_variable_is_reported() -> None:
    found = list(content.environment(query_for(environment={"RANK": "1", "1A": "x", "OK": "fine", "B": "\0"})))

    assert [problem.where for problem in found] == ["environment/RANK", "environment", "environment/B"]


def test_secrets_are_no_variables_of_the_system_nor_open_ones() -> None:
    found = list(content.secrets(query_for(secrets={"RANK": "1", "A": "hidden"}, environment={"A": "x"})))

    assert [problem.where for problem in found] == ["secrets/RANK", "secrets/A"]
    assert "hidden" not in str(found)


def test_secrets_and_open_variables_have_one_limit() -> None:
    found = list(content.secrets(query_for(secrets={"A": "x" * 40_000}, environment={"B": "x" * 40_000})))

    assert [problem.where for problem in found] == ["secrets"]
    assert list(content.secrets(query_for(secrets={"A": "x" * 20_000}, environment={"B": "x" * 20_000}))) == []


def test_what_all_kernels_carry_is_counted_together() -> None:
    worker = KernelGroupRequest(name="worker", size=100, command=("x" * (200 << 10),))

    assert [one.where for one in content.spec_size(query_for(groups=(worker,)))] == ["environment"]
    assert list(content.spec_size(query_for(size=100))) == []


@pytest.mark.parametrize("carried", ["secrets", "environment"])
def test_what_all_sessions_of_an_array_carry_is_counted_together(carried: str) -> None:
    many = read_array("0-9999")
    found = content.spec_size(query_for(array=many, **{carried: {"TOKEN": "x" * 60_000}}))
    assert [one.where for one in found] == ["array"]


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        ({f"n{number}": "" for number in range(33)}, "33 must be a mapping of at most 32 labels"),
        ({"team": "v" * 129}, "is not at most 128 letters"),
    ],
)
def test_labels_of_a_session_are_reported_once_and_with_its_limits(labels: dict[str, str], problem: str) -> None:
    [found] = content.labels(query_for(labels=labels))
    assert problem in found.problem
