"""The kernels of a request as groups of equal ones."""

from __future__ import annotations

from sokovan.domain.session_request import KernelGroupRequest
from sokovan.orchestrator.sessions.intake.kernel_groups import kernel_groups, roles
from tests.unit.orchestrator.sessions.controller_harness import session_request


def test_a_request_without_groups_is_a_main_kernel_and_others() -> None:
    (group,) = kernel_groups(session_request(size=3))

    assert list(roles(group)) == ["main", "sub", "sub"]
    assert group.image == "host"
    assert group.place("size") == "size"


def test_a_group_gives_its_kernels_its_name() -> None:
    chief, workers = kernel_groups(
        session_request(groups=(KernelGroupRequest(name="chief"), KernelGroupRequest(name="worker", size=2)))
    )

    assert [*roles(chief), *roles(workers)] == ["chief", "worker", "worker"]


def test_a_group_has_what_the_session_says_unless_it_says_otherwise() -> None:
    own = KernelGroupRequest(
        name="own",
        image="venv:a",
        command=("true",),
        resources={"cpu": 2},
        environment={"A": "2"},
        labels={"l": "2"},
        require={"r": "2"},
        priority=7,
        nominated="a2",
    )
    request = session_request(
        groups=(own, KernelGroupRequest(name="same")),
        image="venv:b",
        nominated="a1",
        resources={"mem": "1Gi"},
        environment={"A": "1", "B": "1"},
        labels={"l": "1", "k": "1"},
        require={"r": "1"},
    )

    mine, same = kernel_groups(request)

    assert (mine.image, mine.command, mine.resources) == ("venv:a", ("true",), {"cpu": 2})
    assert (mine.environment, mine.labels, mine.require) == ({"A": "2", "B": "1"}, {"l": "2", "k": "1"}, {"r": "2"})
    assert (same.image, same.command, same.resources) == ("venv:b", ("echo", "hello"), {"mem": "1Gi"})
    assert (mine.nominated, same.nominated) == ("a2", "a1")
    assert (mine.priority, same.priority) == (7, 0)


def test_a_problem_is_reported_where_the_value_was_written() -> None:
    _, group = kernel_groups(
        session_request(groups=(KernelGroupRequest(name="a"), KernelGroupRequest(name="b", image="x")))
    )

    assert group.place("image") == "groups/1/image"
    assert group.place("command") == "command"
    assert group.place("size") == "groups/1/size"
