"""The lock of a proxy's folder, and what the server loads for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sokovan.entrypoints.proxies.folder_lock import LOCK_FILE, holder_of


def test_a_folder_without_a_lock_has_no_holder(tmp_path: Path) -> None:
    assert holder_of(tmp_path) is None
    (tmp_path / LOCK_FILE).write_text("123")
    assert holder_of(tmp_path) is None, "nobody holds the lock of this file"


@pytest.mark.slow
def test_a_server_loads_nothing_of_the_proxy() -> None:
    code = (
        "import sys, sokovan.entrypoints.up; print(*[name for name in sys.modules if name.startswith('sokovan.proxy')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert [name for name in done.stdout.split() if name.startswith("sokovan.proxy")] == []
