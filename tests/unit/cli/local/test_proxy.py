"""`sokovan proxy`: what it hands over."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sokovan.entrypoints.proxies.embedded_gateway import GatewayOptions
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
    words = ("--listen", "[::1]:8000", "--workers", "4", "--root", "r", "--token-file", str(tmp_path / "t"))

    assert sokovan("proxy", MANAGER, *words) == (0, "", "listening\n")
    [options] = asked
    assert options == ProxyOptions(
        manager=MANAGER, token=options.token, root=Path("r"), host="::1", port=8000, workers=4
    )
    assert options.token == "skp-1"  # noqa: S105  # written above


def test_the_proxy_of_a_server_gets_the_same_options_without_the_parser(
    sokovan: Sokovan, asked: list[ProxyOptions], tmp_path: Path
) -> None:
    (tmp_path / "t").write_text("skp-1\n", encoding="utf-8")
    command = GatewayOptions(
        manager=MANAGER, token_file=tmp_path / "t", root=tmp_path, workers=2, authority=tmp_path / "ca"
    ).command(5)
    words = command[command.index("sokovan") + 1 :]

    assert sokovan("proxy", *words[1:])[0] == sokovan(*words)[0] == 0
    by_parser, plain = asked
    assert by_parser == plain
    assert (plain.descriptor, plain.workers, plain.authority) == (5, 2, tmp_path / "ca")


@pytest.mark.slow
def test_a_proxy_serves_before_the_client_of_its_manager_has_loaded(tmp_path: Path) -> None:
    script = (
        "import sys; from sokovan.cli.main import run; import sokovan.entrypoints.proxies.proxy_process as process; "
    )
    script += "process.run_proxy = lambda options, log: 0; run(sys.argv[1:]); "
    script += "print([name for name in ('cyclopts', 'httpx2', 'numpy', 'yaml', 'sqlite3') if name in sys.modules])"
    (tmp_path / "t").write_text("skp-1\n", encoding="utf-8")
    command = GatewayOptions(manager=MANAGER, token_file=tmp_path / "t", root=tmp_path).command(5)
    words = command[command.index("sokovan") + 1 :]
    loaded = subprocess.run([sys.executable, "-c", script, *words], check=True, capture_output=True, text=True)
    assert loaded.stdout == "[]\n"


def test_a_socket_of_the_parent_process_is_handed_over(sokovan: Sokovan, asked: list[ProxyOptions]) -> None:
    assert sokovan("proxy", "--listen", "fd:5")[0] == 0
    assert asked[0].descriptor == 5


def test_a_proxy_without_a_manager_serves_the_routes_on_disk(sokovan: Sokovan, asked: list[ProxyOptions]) -> None:
    assert sokovan("proxy")[0] == 0
    assert (asked[0].manager, asked[0].host, asked[0].port) == ("", "127.0.0.1", 7648)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((MANAGER,), "no token for proxies given"),
        (("ws://127.0.0.1:1",), "is not the URL of a manager"),
        (("http://10.0.0.1:7646",), "unencrypted"),
        (("https://10.0.0.1:7646", "--ca", "no such file"), "is not a file"),
        (("--listen", "8000"), "is not an address"),
        (("--listen", "host:99999"), "is not an address"),
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
