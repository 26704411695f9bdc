"""Contract of uploads, in a folder."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.local.upload_store import LocalUploads
from sokovan.ports.uploads import UploadStore
from sokovan.testing.contracts import Subject
from sokovan.testing.contracts.uploads import CHECKS, UploadSubject


@pytest.fixture
def subject(tmp_path: Path) -> UploadSubject:
    store = LocalUploads(tmp_path)

    async def make() -> UploadStore:
        return store

    return Subject(make, SystemClock().sleep)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_contract(check: Callable[[UploadSubject], Awaitable[None]], subject: UploadSubject) -> None:
    await check(subject)
