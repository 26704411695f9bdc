"""The promises of KernelRuntime, on real processes, plain and in a sandbox."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.process.runtime import ProcessRuntime
from sokovan.ports.runtime import KernelRuntime
from sokovan.testing.contracts import runtime as suite
from sokovan.testing.contracts.runtime import CHECKS, RuntimeSubject
from tests.kernels import needs_sandbox, runtime_in


@pytest.fixture(params=["plain", pytest.param("sandbox", marks=needs_sandbox)])
async def subject(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[RuntimeSubject]:
    bubblewrap = "bwrap" if request.param == "sandbox" else ""

    async def make() -> KernelRuntime:
        return ProcessRuntime(tmp_path / "root", SystemClock(), bubblewrap=bubblewrap)

    async with runtime_in(tmp_path / "root", bubblewrap=bubblewrap):
        yield RuntimeSubject(make, SystemClock().sleep)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_the_process_runtime_keeps_its_promise(
    check: Callable[[RuntimeSubject], Awaitable[None]], subject: RuntimeSubject
) -> None:
    await check(subject)


def test_every_check_of_the_suite_is_run() -> None:
    written = {
        value for name, value in vars(suite).items() if name.startswith(("a_", "an_", "the_", "what_", "creating_"))
    }
    assert written <= set(CHECKS)
