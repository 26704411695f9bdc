"""The halves of a login in the headers of a request."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from starlette.datastructures import Headers

from sokovan.api.access.logins import code_of, halves_of, joined, may_log_in, require_same_page
from sokovan.api.errors import ForeignOrigin

HALF, PROOF = "LI-0A." + "c" * 43, "p" * 43


def headers(**given: str) -> Headers:
    return Headers({"host": "127.0.0.1:7646", **{name.replace("_", "-"): value for name, value in given.items()}})


def test_both_halves_are_read_as_one_secret_that_is_not_shown() -> None:
    found = halves_of(headers(cookie=f"a=b; sokovan-login-7646={HALF}", x_sokovan_proof=PROOF))
    assert found == joined(HALF, PROOF)
    assert found is not None
    assert (found.login_id, repr(found)) == ("LI-0A", "LoginHalves(LI-0A)")


@pytest.mark.parametrize(
    "given",
    [
        {"cookie": f"sokovan-login-7646={HALF}"},
        {"x_sokovan_proof": PROOF},
        {"cookie": f"sokovan-login-7647={HALF}", "x_sokovan_proof": PROOF},
        {"cookie": f"sokovan-login-7646={HALF}x", "x_sokovan_proof": PROOF},
        {"cookie": f"sokovan-login-7646={HALF}", "x_sokovan_proof": PROOF + "x"},
        {"cookie": "sokovan-login-7646=" + HALF + "; a=" + "x" * 9000, "x_sokovan_proof": PROOF},
    ],
)
def test_anything_else_is_no_login(given: dict[str, str]) -> None:
    assert halves_of(headers(**given)) is None


def test_a_socket_has_its_proof_among_the_protocols_that_it_offers() -> None:
    offered = f"sokovan-exec, sokovan-proof.{PROOF}"
    found = halves_of(headers(cookie=f"sokovan-login-7646={HALF}", sec_websocket_protocol=offered))
    assert found == joined(HALF, PROOF)
    assert halves_of(headers(cookie=f"sokovan-login-7646={HALF}", sec_websocket_protocol="sokovan-exec")) is None


def test_a_login_opens_the_socket_of_a_command_and_no_other() -> None:
    socket = {"type": "websocket", "path": "/api/v1/sessions/s/kernels/0/exec"}
    assert may_log_in(socket)
    assert not may_log_in({**socket, "path": "/api/v1/sessions/s/kernels/0/ports/80"})
    assert may_log_in({"type": "http", "path": "/anything"})


@pytest.mark.parametrize(
    ("given", "is_own"),
    [
        ({"origin": "http://127.0.0.1:7646"}, True),
        ({"origin": "http://127.0.0.1:7646", "sec_fetch_site": "same-origin"}, True),
        ({"origin": "http://127.0.0.1:7647"}, False),
        ({"origin": "http://127.0.0.1:7646", "sec_fetch_site": "same-site"}, False),
        ({}, False),
    ],
)
def test_a_socket_must_come_from_a_page_of_this_port(given: dict[str, str], *, is_own: bool) -> None:
    scope = {"type": "websocket", "scheme": "ws", "path": "/"}
    with nullcontext() if is_own else pytest.raises(ForeignOrigin):
        require_same_page(scope, headers(**given))


def test_a_code_is_read_from_its_own_scheme_only() -> None:
    code = "LC-0A." + "c" * 43
    assert code_of(f"Login-Code {code}") == code
    assert [code_of(text) for text in (None, "", f"Bearer {code}", f"Login-Code {code}x", "Login-Code")] == [None] * 5
