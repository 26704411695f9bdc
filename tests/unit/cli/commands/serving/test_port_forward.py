"""`sokovan port-forward`."""

from __future__ import annotations

import pytest

from sokovan.cli.commands.serving.port_forward import Forwarding, read_forwarding
from sokovan.sdk.errors import InvalidSetting
from tests.unit.cli.canned_server import CannedServer, Sokovan
from tests.unit.sdk.views import session


@pytest.mark.parametrize(
    ("text", "expected"),
    [("http", Forwarding(0, "http")), ("8080:http", Forwarding(8080, "http")), ("20001", Forwarding(0, "20001"))],
)
def test_a_port_is_read_with_or_without_a_local_one(text: str, expected: Forwarding) -> None:
    assert read_forwarding(text) == expected


@pytest.mark.parametrize("text", ["", ":", "8080:", "x:http", "0:http", "65536:http", "-1:http", "\u0663:http"])
def test_what_is_no_port_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidSetting, match="no port") as raised:
        read_forwarding(text)
    assert "LOCAL:PORT" in str(raised.value.hint)


@pytest.mark.parametrize(
    ("words", "message"),
    [(("web", "--kernel", "-1"), "--kernel -1"), (("web", "x:http"), "no port"), ((), "requires")],
)
def test_an_invalid_command_is_a_usage_error(sokovan: Sokovan, words: tuple[str, ...], message: str) -> None:
    status, _, err = sokovan("port-forward", *words)
    assert status == 2
    assert message in err


@pytest.mark.parametrize("status", ["terminated", "cancelled"])
def test_a_session_that_has_ended_is_refused_before_anything_listens(
    server: CannedServer, sokovan: Sokovan, status: str
) -> None:
    server.says("GET sessions/ddp", session(status=status))
    code, out, err = sokovan("port-forward", "ddp")
    assert (code, out) == (1, "")
    assert f"has ended ({status})" in err
    assert "sokovan logs" in err
    assert "[session-ended]" in err
