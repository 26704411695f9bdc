"""The gateway of `sokovan up`: there from the first request on, also after a crash."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import httpx2
import pytest

from sokovan.entrypoints.proxies.folder_lock import holder_of
from tests.acceptance.embedded import Embedded

pytestmark = [pytest.mark.server, pytest.mark.slow]


def asked(server: Embedded, path: str) -> httpx2.Response:
    return httpx2.get(f"{server.about['gateway']}{path}", timeout=60, trust_env=False)


def test_the_gateway_starts_with_the_first_request_and_again_after_a_kill(server: Embedded) -> None:
    first = asked(server, "/v1/models")
    assert first.status_code == 401
    assert first.json()["error"]["code"] == "no-key"

    process = holder_of(Path(server.data) / "proxy")
    assert process is not None
    os.kill(process, signal.SIGKILL)
    # Its socket is the server's: a request waits until the next process has started.
    assert asked(server, "/-/health").status_code == 200
    assert holder_of(Path(server.data) / "proxy") not in {None, process}
