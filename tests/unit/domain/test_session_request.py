"""The defaults of session requests, and the options that they share with specs."""

from __future__ import annotations

from dataclasses import fields

from sokovan.domain.owners.tenancy import Owner, Role
from sokovan.domain.session import LostPolicy, Mount, SessionOptions, SessionSpec, SessionType
from sokovan.domain.session_request import Caller, KernelGroupRequest, SessionRequest


def test_a_request_that_says_nothing_is_one_batch_kernel_of_the_systems_choice() -> None:
    request = SessionRequest()

    assert (request.session_type, request.size, request.groups) == (SessionType.BATCH, 1, ())
    assert (request.name, request.image, request.queue, request.scaling_group, request.group) == ("",) * 5
    assert request.ends_with is None
    assert request.on_agent_lost is LostPolicy.END


def test_a_kernel_group_that_says_nothing_is_as_the_session_says() -> None:
    group = KernelGroupRequest(name="worker")

    assert (group.image, group.command, group.resources, group.minimum) == (None,) * 4


def test_the_options_of_a_request_are_those_that_the_spec_keeps() -> None:
    request = SessionRequest(name="a", priority=3, mounts=(Mount("/data", "/data"),), image="host")

    options = request.options()

    assert options.keys() == {one.name for one in fields(SessionOptions)} <= {one.name for one in fields(SessionSpec)}
    assert (options["name"], options["priority"], options["mounts"]) == ("a", 3, request.mounts)
    assert "image" not in options


def test_a_caller_is_a_plain_user_unless_authentication_says_otherwise() -> None:
    assert Caller(Owner()).role is Role.USER
    assert Caller(Owner()).groups == ()
