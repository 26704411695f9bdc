"""The proxy of a server starts without the parser of commands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sokovan.entrypoints.proxies.embedded_gateway import GatewayOptions
from sokovan.entrypoints.proxies.proxy_process import ProxyOptions
from tests.unit.cli.canned_server import Sokovan
from tests.unit.cli.local.test_proxy import MANAGER, asked

__all__ = ["asked"]


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
