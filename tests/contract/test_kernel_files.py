"""Contract of the files of kernels, on the folders of the process runtime."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from sokovan.testing.contracts.kernel_files import CHECKS, KernelFilesSubject
from tests.unit.adapters.process.files.kernels import Machine


@pytest.fixture
def subject(tmp_path: Path) -> KernelFilesSubject:
    machine = Machine(tmp_path / "root")
    (tmp_path / "outside").mkdir()
    work = machine.kernel()
    return KernelFilesSubject(machine.files, work, machine.output(), tmp_path / "outside", machine.uploads.add)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_contract(check: Callable[[KernelFilesSubject], Awaitable[None]], subject: KernelFilesSubject) -> None:
    await check(subject)
