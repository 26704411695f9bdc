"""What a request means when it says nothing."""

from __future__ import annotations

from sokovan.domain.session import LostPolicy, SessionType
from sokovan.domain.tenancy import Owner, Role
from sokovan.orchestrator.sessions.intake.requests import Caller, KernelGroupRequest, SessionRequest


def test_a_request_that_says_nothing_is_one_batch_kernel_of_the_systems_choice() -> None:
    request = SessionRequest()

    assert (request.session_type, request.size, request.groups) == (SessionType.BATCH, 1, ())
    assert (request.name, request.image, request.queue, request.scaling_group, request.group) == ("",) * 5
    assert request.ends_with is None
    assert request.on_agent_lost is LostPolicy.END


def test_a_kernel_group_that_says_nothing_is_as_the_session_says() -> None:
    group = KernelGroupRequest(name="worker")

    assert (group.image, group.command, group.resources, group.minimum) == (None,) * 4


def test_a_caller_is_a_plain_user_unless_authentication_says_otherwise() -> None:
    assert Caller(Owner()).role is Role.USER
    assert Caller(Owner()).groups == ()
