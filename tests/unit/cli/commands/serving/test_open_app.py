"""`sokovan open`."""

from __future__ import annotations

import pytest

from tests.unit.cli.canned_server import CannedServer, Sokovan
from tests.unit.sdk.views import session


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("lab", "--kernel", "-1"), "--kernel -1"),
        (("lab", "--local-port", "65536"), "--local-port 65536"),
        ((), "requires"),
    ],
)
def test_an_invalid_command_is_a_usage_error(sokovan: Sokovan, words: tuple[str, ...], message: str) -> None:
    status, _, err = sokovan("open", *words)
    assert status == 2
    assert message in err


@pytest.mark.parametrize("status", ["terminated", "cancelled"])
def test_a_session_that_has_ended_is_refused_before_anything_listens(
    server: CannedServer, sokovan: Sokovan, status: str
) -> None:
    server.says("GET sessions/ddp", session(status=status))
    code, out, err = sokovan("open", "ddp")
    assert (code, out) == (1, "")
    assert f"has ended ({status})" in err
    assert "sokovan logs" in err
    assert "[session-ended]" in err
