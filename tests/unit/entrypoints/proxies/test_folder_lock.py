"""The lock of a proxy's folder, and what the server loads for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sokovan.entrypoints.proxies.folder_lock import LOCK_FILE, holder_of, holders_of
from sokovan.entrypoints.proxies.proxy_folder import lock_folder


def test_a_folder_without_a_lock_has_no_holder(tmp_path: Path) -> None:
    assert holder_of(tmp_path) is None
    (tmp_path / LOCK_FILE).write_text("123")
    assert holder_of(tmp_path) is None, "nobody holds the lock of this file"


def test_the_holders_of_all_folders_are_found_outer_ones_first(tmp_path: Path) -> None:
    assert holders_of(tmp_path / "missing") == []
    handles = []
    for name, process in (("worker-0", 11), ("next-1/worker-0", 12), (".", 13), ("worker-1", 11)):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
        handles.append(lock_folder(tmp_path / name))
        (tmp_path / name / LOCK_FILE).write_text(str(process))
    (tmp_path / "free").mkdir()
    (tmp_path / "free" / LOCK_FILE).write_text("14")

    assert holders_of(tmp_path) == [13, 11, 12]
    for handle in handles:
        os.close(handle)


@pytest.mark.slow
def test_a_server_loads_nothing_of_the_proxy() -> None:
    code = (
        "import sys, sokovan.entrypoints.up; print(*[name for name in sys.modules if name.startswith('sokovan.proxy')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert [name for name in done.stdout.split() if name.startswith("sokovan.proxy")] == []
