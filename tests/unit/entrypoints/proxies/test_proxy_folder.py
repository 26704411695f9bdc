"""The folder of a proxy: one process, one identity, numbers that go on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sokovan.entrypoints.proxies.folder_lock import holder_of
from sokovan.entrypoints.proxies.proxy_folder import ProxyFolder, ProxyFolderInUse
from sokovan.proxy.accounts.token_counts import TokenCount


def test_identity_and_numbers_outlive_a_restart(tmp_path: Path) -> None:
    first = ProxyFolder(tmp_path / "proxy")
    first.ledger.add(key_id="k", deployment_id="d", revision=1, count=TokenCount(1, 2), failed=False, now_ms=0)
    first.ledger.close()
    first.save_usage()
    first.close()
    second = ProxyFolder(tmp_path / "proxy")

    assert second.identity.proxy_id == first.identity.proxy_id
    assert second.identity.incarnation == first.identity.incarnation + 1
    assert second.ledger.unsent() == first.ledger.unsent()
    assert second.ledger.sequence == 1
    second.close()


def test_a_folder_that_cannot_be_read_is_another_proxy(tmp_path: Path) -> None:
    first = ProxyFolder(tmp_path)
    first.close()
    (tmp_path / "usage.json").write_bytes(b"half a fi")
    second = ProxyFolder(tmp_path)

    assert second.identity.proxy_id != first.identity.proxy_id
    second.close()


def test_one_process_uses_a_folder_and_can_be_found(tmp_path: Path) -> None:
    assert holder_of(tmp_path) is None
    first = ProxyFolder(tmp_path)
    assert holder_of(tmp_path) == os.getpid()
    with pytest.raises(ProxyFolderInUse, match="another proxy uses"):
        ProxyFolder(tmp_path)

    first.close()
    assert holder_of(tmp_path) is None
    ProxyFolder(tmp_path).close()
