"""Options of an agent on a running server: shard, kernel limit, reserve, cached images."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sokovan.agent import machine
from tests.acceptance.embedded import Embedded, until
from tests.acceptance.endings import ended_well

OPTIONS = ("--shard", "east", "--max-kernels", "2", "--reserve", "cpu=0.5,mem=512MiB")
LITTLE = ("--cpus", "0.1", "--mem", "64MiB", "--workdir", "none")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """`sokovan up` with a limited agent."""
    server = Embedded(tmp_path_factory.mktemp("limited"))
    with ended_well(server):
        server.start(*OPTIONS)
        yield server


def shown(server: Embedded) -> str:
    [agent] = server.cli_json("agent", "ls")
    return server.cli("agent", "show", agent["id"]).stdout


def test_what_is_reserved_for_the_machine_is_not_offered(server: Embedded) -> None:
    [agent] = server.cli_json("agent", "ls")
    assert agent["slots"]["cpu"] == machine.cpu_millicores() - 500
    assert agent["slots"]["mem"] == machine.memory_bytes() - (512 << 20)


def test_no_more_kernels_run_than_the_agent_allows(server: Embedded) -> None:
    assert "0/2" in shown(server)
    for number in range(3):
        done = server.cli("run", "-d", "-n", f"s{number}", *LITTLE, "--", "sleep", "600")
        assert done.returncode == 0, done.stderr
    for number in range(2):
        server.reaches(f"s{number}", "running")
    until(lambda: server.session("s2")["reason"] == "NOT_ENOUGH_FREE", what="the third waits")
    assert "2/2" in shown(server)
    server.end("s0")
    server.reaches("s2", "running")
    for name in ("s1", "s2"):
        server.end(name)
    for name in ("s0", "s1", "s2"):
        server.settles(name)


def test_a_shard_mode_is_set_only_where_an_agent_has_the_shard(server: Embedded) -> None:
    assert "east" in shown(server)
    refused = server.cli("scaling-group", "set", "default", "--option", "shard=west", "--option", "shard_mode=hard")
    assert refused.returncode == 2, refused.stdout
    assert "needs an agent of shard west" in refused.stderr
    assert "sokovan agent run --shard west" in refused.stderr
    assert server.cli_json("scaling-group", "show", "default")["scheduler_opts"] == {}
    done = server.cli("scaling-group", "set", "default", "--option", "shard=east", "--option", "shard_mode=hard")
    assert done.returncode == 0, done.stderr
    assert server.cli("run", "-n", "inside", *LITTLE, "--", "true").returncode == 0


def test_images_of_an_agent_are_listed_also_after_a_restart(server: Embedded) -> None:
    assert "host" in next(line for line in shown(server).splitlines() if line.startswith("images"))
    (server.kernels / "images" / "empty.txt").write_text("", encoding="utf-8")
    done = server.cli("run", "-n", "prepared", "--image", "venv:empty", *LITTLE, "--", "true")
    assert done.returncode == 0, done.stderr
    until(lambda: "venv:empty" in shown(server), what="the image is listed")
    server.stop()
    server.start(*OPTIONS)
    until(lambda: "venv:empty" in shown(server), what="the image is listed again")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--reserve", "cpu=100000"), "the machine has only cpu="),
        (("--reserve", "cuda.device=1"), "cuda.device cannot be reserved"),
        (("--reserve", "cpu"), "has no '='"),
        (("--max-kernels", "-1"), "agent.kernels_max"),
        (("--shard", "no name"), "agent.shard"),
    ],
)
def test_a_bad_option_of_the_machine_starts_nothing(server: Embedded, options: tuple[str, str], problem: str) -> None:
    folder = server.folder / "other"
    refused = server.cli("up", "--port", "0", "--data", str(folder), *options)
    assert refused.returncode == 2, refused.stdout + refused.stderr
    assert problem in refused.stderr
    assert not folder.exists()
