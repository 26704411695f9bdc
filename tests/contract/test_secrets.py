"""Contract of the box for secrets, on keys in a file."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.local.secret_box import AesSecretBox, SecretKeyFile
from sokovan.ports.secrets import SecretBox
from sokovan.testing.contracts import Subject
from sokovan.testing.contracts.secrets import CHECKS, SecretBoxSubject


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_contract(check: Callable[[SecretBoxSubject], Awaitable[None]], tmp_path: Path) -> None:
    async def make() -> SecretBox:
        file = SecretKeyFile(tmp_path / "keys")
        file.create()
        return AesSecretBox(file.keys)

    await check(Subject(make, SystemClock().sleep))
