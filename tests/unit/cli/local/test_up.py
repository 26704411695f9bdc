"""`sokovan up`: the options it passes on."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sokovan.entrypoints.embedded.data_folder import DataFolder
from sokovan.entrypoints.up import UpOptions
from tests.kernels import own_start
from tests.unit.cli.canned_server import Sokovan


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[UpOptions]:
    """The options passed to `run_up`."""
    found: list[UpOptions] = []

    def up(options: UpOptions, *, echo: Callable[[str], None]) -> int:
        found.append(options)
        echo("ready")
        return 0

    monkeypatch.setattr("sokovan.entrypoints.up.run_up", up)
    return found


def test_without_options_it_is_the_usual_port_and_an_agent(sokovan: Sokovan, asked: list[UpOptions]) -> None:
    assert sokovan("up") == (0, "", "ready\n")
    assert asked == [UpOptions(port=7646, data=None, fake_agents=None, fake_gpus=0, agent=True)]


def test_every_option_is_handed_over(sokovan: Sokovan, asked: list[UpOptions]) -> None:
    words = (
        "--port",
        "0",
        "--data",
        "d",
        "--fake",
        "64x8",
        "--fake-gpus",
        "4",
        "--gpu-shares",
        "--no-agent",
        "--name",
        "n1",
        "--kernel-ports",
        "31000-31999",
    )
    assert sokovan("up", *words)[0] == 0
    assert asked == [
        UpOptions(
            port=0,
            data=Path("d"),
            fake_agents=(64, 8),
            fake_gpus=4,
            gpu_shares=True,
            agent=False,
            name="n1",
            kernel_ports="31000-31999",
        )
    ]


@pytest.mark.parametrize(
    "words",
    [
        ("--port", "70000"),
        ("--port", "-1"),
        ("--port", "web"),
        ("--fake", "64"),
        ("--fake", "0x8"),
        ("--fake", "ax8"),
        ("--fake", "9999999x8"),
        ("--fake-gpus", "-1"),
        ("--open",),
    ],
)
def test_invalid_values_are_a_usage_error(sokovan: Sokovan, asked: list[UpOptions], words: tuple[str, ...]) -> None:
    status, out, err = sokovan("up", *words)
    assert (status, out, asked) == (2, "", [])
    assert "hint:" in err


@pytest.mark.parametrize(
    ("words", "left"),
    [
        ((), ""),
        (("--port", "7700"), ""),
        (("--port", "0"), ""),
        (("--fake", "4x8", "--no-agent", "--port", "80"), "not applied: --port 80, --fake 4x8, --no-agent; "),
        (("--name", "n1", "--fake-gpus", "2"), "not applied: --fake-gpus 2, --name n1; "),
    ],
)
def test_a_running_server_is_reported_with_options_not_applied(
    sokovan: Sokovan, asked: list[UpOptions], tmp_path: Path, *, words: tuple[str, ...], left: str
) -> None:
    folder = DataFolder(tmp_path)
    with folder.locked():
        folder.write_private(
            "up.json", json.dumps({"url": "http://127.0.0.1:7700", "pid": os.getpid(), "start": own_start()})
        )
        status, _, err = sokovan("up", "--data", str(tmp_path), *words)
    assert (status, asked) == (0, [])
    first, *more = err.splitlines()
    assert first == "sokovan is already running at http://127.0.0.1:7700; nothing to do"
    assert len(more) == bool(left)
    assert "".join(more).startswith(left)
