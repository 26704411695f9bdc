"""`sokovan proxy`: what it hands over."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from sokovan.entrypoints.proxies.proxy_process import ProxyOptions
from tests.unit.cli.canned_server import Sokovan

MANAGER = "http://127.0.0.1:7646"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[ProxyOptions]:
    """The options passed to `run_proxy`."""
    found: list[ProxyOptions] = []

    def run(options: ProxyOptions, tell: Callable[[str], None]) -> int:
        found.append(options)
        tell("listening")
        return 0

    monkeypatch.setattr("sokovan.entrypoints.proxies.proxy_process.run_proxy", run)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.delenv("SOKOVAN_PROXY_TOKEN", raising=False)
    return found


def test_every_option_is_handed_over(sokovan: Sokovan, asked: list[ProxyOptions], tmp_path: Path) -> None:
    (tmp_path / "t").write_text("skp-1\n", encoding="utf-8")
    words = ["--listen", "[::1]:8000", "--workers", "4", "--root", "r", "--token-file", str(tmp_path / "t")]
    words += ["--certificate", "c.pem", "--key", "k.pem", "--allow-unencrypted-listen"]
    words += ["--advertise", "https://models-1.example:8443"]

    assert sokovan("proxy", MANAGER, *words) == (0, "", "listening\n")
    [options] = asked
    assert options == ProxyOptions(
        managers=(MANAGER,),
        token=options.token,
        root=Path("r"),
        host="::1",
        port=8000,
        workers=4,
        certificate=Path("c.pem"),
        key=Path("k.pem"),
        unencrypted=True,
        advertised="https://models-1.example:8443",
    )
    assert options.token == "skp-1"  # noqa: S105  # written above


def test_a_socket_of_the_parent_process_is_handed_over(sokovan: Sokovan, asked: list[ProxyOptions]) -> None:
    assert sokovan("proxy", "--listen", "fd:5")[0] == 0
    assert asked[0].descriptor == 5


def test_a_proxy_may_have_several_managers(
    sokovan: Sokovan, asked: list[ProxyOptions], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOKOVAN_PROXY_TOKEN", "skp-1")
    assert sokovan("proxy", MANAGER, "https://10.0.0.2:7656")[0] == 0
    assert asked[0].managers == (MANAGER, "https://10.0.0.2:7656")


def test_a_proxy_without_a_manager_serves_the_routes_on_disk(sokovan: Sokovan, asked: list[ProxyOptions]) -> None:
    assert sokovan("proxy")[0] == 0
    assert (asked[0].managers, asked[0].host, asked[0].port) == ((), "127.0.0.1", 7648)


def test_a_gateway_for_other_machines_does_not_start_without_tls(
    sokovan: Sokovan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sokovan.entrypoints.proxies.proxy_process._run", lambda *_arguments: 0)
    for address in ("0.0.0.0:0", "[::]:0"):
        code, _out, err = sokovan("proxy", "--listen", address, "--root", str(tmp_path))
        assert code != 0
        assert "is reached by other machines" in err
        assert "--allow-unencrypted-listen" in err
        assert "gateway-unencrypted" in err
        allowed = ("proxy", "--listen", address, "--root", str(tmp_path), "--allow-unencrypted-listen")
        assert sokovan(*allowed)[0] == 0


def test_an_inherited_socket_for_other_machines_is_refused_too(sokovan: Sokovan, tmp_path: Path) -> None:
    with socket.create_server(("0.0.0.0", 0)) as everywhere:  # noqa: S104  # what is refused
        code, _out, err = sokovan("proxy", "--listen", f"fd:{everywhere.fileno()}", "--root", str(tmp_path))
    assert code != 0
    assert "is reached by other machines" in err


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((MANAGER,), "no token for proxies given"),
        (("ws://127.0.0.1:1",), "is not the URL of a manager"),
        (("http://10.0.0.1:7646",), "unencrypted"),
        ((MANAGER, "http://10.0.0.1:7646"), "unencrypted"),
        (("https://10.0.0.1:7646", "--ca", "no such file"), "is not a file"),
        (("--listen", "8000"), "is not an address"),
        (("--listen", "host:99999"), "is not an address"),
        (("--key", "k.pem"), "of no use without --certificate"),
        (("--workers", "0"), "is not a number of processes"),
        (("--workers", "1000"), "is not a number of processes"),
        ((MANAGER, "--token-file", "/does/not/exist"), "cannot read the token"),
    ],
)
def test_a_mistake_is_said_with_a_hint(
    sokovan: Sokovan, asked: list[ProxyOptions], words: tuple[str, ...], problem: str
) -> None:
    code, _out, err = sokovan("proxy", *words)

    assert code == 2
    assert problem in err
    assert not asked


@pytest.mark.parametrize("url", ["models-1:8443", "https://models-1", "https://models-1:8443/v1", "ftp://a:1"])
def test_what_a_load_balancer_could_not_use_is_not_advertised(
    sokovan: Sokovan, asked: list[ProxyOptions], url: str
) -> None:
    code, _, said = sokovan("proxy", "--advertise", url)
    assert (code, asked) == (2, [])
    assert "use --advertise https://HOST:PORT" in said
