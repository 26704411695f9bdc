"""`sokovan session stats`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sokovan.cli.commands.catalog import session_use
from tests.unit.cli.canned_server import CannedServer, Sokovan

PATH = "GET sessions/ddp/metrics"
BY_ID = "GET sessions/s-1/metrics"


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_use, "PAUSE_S", 0.0)


def kernel(at_ms: int, cpu_ms: int | None, **changes: Any) -> dict[str, Any]:
    return {
        "index": 0, "rank": 0, "status": "running", "agent": "a1", "slots": {"cpu": 2000, "mem": 4 << 30},
        "cpu_ms": cpu_ms, "memory_bytes": 512 << 20, "processes": 3, "sampled_ms": at_ms, "error": None, **changes,
    }  # fmt: skip


def metrics(*items: dict[str, Any], status: str = "running", size: int = 1) -> dict[str, Any]:
    return {"session": "s-1", "status": status, "size": size, "items": list(items)}


def test_cores_are_computed_from_two_measurements(server: CannedServer, sokovan: Sokovan) -> None:
    server.says(PATH, metrics(kernel(1000, 700)))
    server.says(BY_ID, metrics(kernel(3000, 3700)))
    status, out, _ = sokovan("session", "stats", "ddp")
    head, line = out.splitlines()
    assert (status, head.split()) == (
        0,
        ["KERNEL", "AGENT", "STATE", "CPU", "MEMORY", "PROCESSES", "DEVICES", "PROBLEM"],
    )
    assert line.split() == ["0", "a1", "RUNNING", "1.50/2", "512MiB/4GiB", "3", "-", "-"]


def test_devices_are_shown_with_their_mean_use_and_all_of_their_memory(server: CannedServer, sokovan: Sokovan) -> None:
    figures = {
        "gpu0": {"use_percent": 90, "memory_used_bytes": 30 << 30, "memory_bytes": 80 << 30},
        "gpu1": {"use_percent": 71, "memory_used_bytes": 10 << 30, "memory_bytes": 80 << 30},
        "gpu2": {"temperature_c": 40},
    }
    for path in (PATH, BY_ID):
        server.says(path, metrics(kernel(1000, 700, devices=figures)))
    _, out, _ = sokovan("session", "stats", "ddp")
    assert "80% 40GiB/160GiB" in out.splitlines()[1]


def test_the_same_as_json_for_chosen_kernels(server: CannedServer, sokovan: Sokovan) -> None:
    server.says(PATH, metrics(kernel(1000, 700)))
    server.says(BY_ID, metrics(kernel(2000, 1200)))
    status, out, _ = sokovan("session", "stats", "ddp", "--kernel", "0", "--kernel", "7", "--json")
    [found] = json.loads(out)
    assert (status, found["kernel"], found["cpu_cores"], found["cpu_ms"], found["slots"]["cpu"]) == (
        0, 0, 0.5, 1200, 2000,
    )  # fmt: skip
    assert server.lines == ["GET sessions/ddp/metrics?kernel=0%2C7", "GET sessions/s-1/metrics?kernel=0%2C7"]


def test_what_cannot_be_measured_or_compared_is_left_open(server: CannedServer, sokovan: Sokovan) -> None:
    away = kernel(0, None, index=1, memory_bytes=None, processes=None, sampled_ms=None, error="agent 'a2': away")
    server.says(PATH, metrics(kernel(1000, 700), away))
    server.says(BY_ID, metrics(kernel(1000, 700), away, size=70))
    _, out, err = sokovan("session", "stats", "ddp")
    lines = out.splitlines()
    assert lines[1].split()[3] == "-", "two answers with the same measurement have no rate"
    assert lines[2].split() == ["1", "a1", "RUNNING", "-", "-", "-", "-", "agent", "'a2':", "away"]
    assert "the first 2 of 70 kernels are shown" in err


def test_watching_ends_with_the_session(server: CannedServer, sokovan: Sokovan) -> None:
    server.says(PATH, metrics(kernel(1000, 0)))
    ended = kernel(0, None, sampled_ms=None, status="terminated", error="the kernel has ended")
    server.says(BY_ID, metrics(kernel(2000, 1000)), metrics(kernel(3000, 1500)), metrics(ended, status="terminated"))
    _, out, _ = sokovan("session", "stats", "ddp", "--watch", "--json")
    assert [json.loads(line)["cpu_cores"] for line in out.splitlines()] == [1.0, 0.5, None]


def test_a_kernel_that_was_started_again_counts_from_nothing(server: CannedServer, sokovan: Sokovan) -> None:
    server.says(PATH, metrics(kernel(1000, 9000)))
    server.says(BY_ID, metrics(kernel(2000, 10)))
    assert json.loads(sokovan("session", "stats", "ddp", "--json")[1])[0]["cpu_cores"] == 0.0
    assert sokovan("session", "stats", "ddp", "--kernel", "-1")[0] == 2
