"""Settings applied to requests."""

from __future__ import annotations

from pathlib import Path

import pytest

from sokovan.sdk.errors import InsecureAddress, NotLoggedIn
from sokovan.sdk.preferences import endpoint_for, with_defaults
from sokovan.sdk.settings import resolve
from sokovan.wire.api.sessions import SessionBody


@pytest.fixture(autouse=True)
def no_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment without settings."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for name in ("SOKOVAN_URL", "SOKOVAN_TOKEN", "SOKOVAN_CONTEXT", "SOKOVAN_QUEUE"):
        monkeypatch.delenv(name, raising=False)


def test_a_request_overrides_the_settings(tmp_path: Path) -> None:
    settings = resolve({}, environment={"SOKOVAN_QUEUE": "slow", "SOKOVAN_IMAGE": "venv:a"}, folder=tmp_path)
    body = with_defaults(SessionBody(queue="fast"), settings)
    assert (body.queue, body.image, body.group) == ("fast", "venv:a", None)


def test_an_address_and_a_key_are_enough() -> None:
    _, endpoint = endpoint_for("https://x/", "sk-1", timeout_s=3)
    assert (endpoint.url, endpoint.token, endpoint.timeout_s) == ("https://x", "sk-1", 3)


@pytest.mark.parametrize("url", ["http://x", "http://10.0.0.1:7646", "http://127.0.0.1.evil.example", "http://127.x"])
def test_a_key_is_not_sent_to_another_machine_without_encryption(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InsecureAddress) as refused:
        endpoint_for(url, "sk-1")
    assert "ssh -L" in str(refused.value)
    monkeypatch.setenv("SOKOVAN_PLAIN_HTTP", "allow")
    assert endpoint_for(url, "sk-1")[1].url == url


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://127.8.9.1", "http://localhost", "http://[::1]:1"])
def test_a_key_is_sent_to_this_machine_without_encryption(url: str) -> None:
    assert endpoint_for(url, "sk-1")[1].url == url


@pytest.mark.parametrize("token", [None, "", "a b", "é", "x\r\nHost: y", "x" * 600])
def test_an_invalid_key_is_not_sent(token: str | None) -> None:
    with pytest.raises(NotLoggedIn):
        endpoint_for("https://x", token)
