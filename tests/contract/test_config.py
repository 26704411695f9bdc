"""Contract of ConfigStore, on a TOML file and on a real etcd."""

from __future__ import annotations

from pathlib import Path

import pytest

from sokovan.adapters.etcd.access import EtcdAccess
from sokovan.adapters.etcd.config import EtcdConfig
from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.local.toml_config import TomlConfig
from sokovan.testing.contracts import config
from sokovan.testing.contracts.config import CHECKS, Check


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_contract_on_a_toml_file(check: Check, tmp_path: Path) -> None:
    await check(lambda: TomlConfig(tmp_path / "sokovan.toml", clock=SystemClock(), poll_s=0.01))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_contract_with_drop_ins(check: Check, tmp_path: Path) -> None:
    (tmp_path / "conf.d").mkdir()
    await check(
        lambda: TomlConfig(tmp_path / "sokovan.toml", clock=SystemClock(), drop_ins=tmp_path / "conf.d", poll_s=0.01)
    )


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_contract_on_etcd(check: Check, etcd_url: str) -> None:
    await check(lambda: EtcdConfig(EtcdAccess((etcd_url,)), clock=SystemClock()))


def test_every_check_of_the_suite_is_run() -> None:
    written = {value for name, value in vars(config).items() if name.startswith("check_")}
    assert written == set(CHECKS)
