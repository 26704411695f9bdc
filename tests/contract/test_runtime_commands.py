"""Contract of KernelRuntime for further commands, plain and in a sandbox."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from sokovan.testing.contracts import runtime_commands as suite
from sokovan.testing.contracts.runtime import RuntimeSubject
from sokovan.testing.contracts.runtime_commands import CHECKS


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_contract(check: Callable[[RuntimeSubject], Awaitable[None]], process_subject: RuntimeSubject) -> None:
    await check(process_subject)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_contract_in_containers(
    check: Callable[[RuntimeSubject], Awaitable[None]], docker_subject: RuntimeSubject
) -> None:
    await check(docker_subject)


def test_every_check_of_the_suite_is_run() -> None:
    assert {value for name, value in vars(suite).items() if name.startswith(("a_", "an_"))} == set(CHECKS)
