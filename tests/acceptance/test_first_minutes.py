"""The first five minutes of a newcomer, a researcher and an administrator, as scripts."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.agent_process import AgentProcess
from tests.acceptance.embedded import Embedded, sokovan_in, until
from tests.acceptance.endings import ended_well

# Two machines of one rack with sixteen GPUs each, of which nothing is ever used.
GPUS = ("--fake-gpus", "16")
LITTLE = ("--cpus", "0.2", "--mem", "64MiB")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """`sokovan up` on the first machine."""
    server = Embedded(tmp_path_factory.mktemp("minutes"))
    with ended_well(server):
        server.start("--name", "head", *GPUS)
        yield server


@pytest.fixture(scope="module")
def second(cluster: Embedded) -> Iterator[AgentProcess]:
    """A second machine, joined with the token of the first."""
    agent = AgentProcess(cluster, "gpu2", options=GPUS)
    agent.start()
    try:
        yield agent
    finally:
        cluster.end_all()
        agent.stop()


def said(done: subprocess.CompletedProcess[str], *texts: str) -> str:
    """Check that a command has succeeded and said all of this; its standard output."""
    assert done.returncode == 0, done.stderr
    for text in texts:
        assert text in done.stdout + done.stderr, f"{text!r} is not in {done.stdout}{done.stderr}"
    return done.stdout


def test_a_newcomer_runs_something_on_a_laptop(cluster: Embedded) -> None:
    for text in ("database   sqlite", "api        http://127.0.0.1:", "agent      head", 'context "local" is active'):
        assert text in cluster.said
    assert re.search(r"ready in \d+\.\d s", cluster.said)
    said(cluster.cli("up", "--port", "0"), "already")
    said(cluster.cli("doctor"), "bubblewrap", "disk")

    hello = cluster.cli("run", *LITTLE, "--", "python3", "-c", "print('hello')")
    assert said(hello, "PENDING", "RUNNING", "finished, exit 0") == "hello\n"
    [name] = re.findall(r"^(\S+)  finished", hello.stderr, flags=re.MULTILINE)
    assert said(cluster.cli("logs", name)) == "hello\n"
    assert cluster.cli("run", *LITTLE, "--", "sh", "-c", "exit 3").returncode == 3
    shell = cluster.cli("shell", *LITTLE, stdin="echo in a shell\nexit\n")
    assert "in a shell" in shell.stdout, shell.stderr
    said(cluster.cli("run", "-h"), "sokovan run --")
    mistyped = cluster.cli("rnu")
    assert mistyped.returncode == 2
    assert "run" in mistyped.stderr


SPEC = """\
# yaml-language-server: $schema=session.schema.json
apiVersion: sokovan/v1
kind: Session
name: train
queue: research
image: host
resources: {cpu: 0.2, mem: 64MiB, gpu: 1}
workdir: .
run: python3 train.py
timeLimit: 4h
"""


def test_a_researcher_runs_a_batch_job_and_then_a_gang(cluster: Embedded, second: AgentProcess, tmp_path: Path) -> None:
    said(cluster.cli("queue", "set", "research"))
    (tmp_path / "train.py").write_text("print('epoch 1')")
    said(sokovan_in(tmp_path, cluster, "init", "train"), "sokovan plan -f train.sokovan.yaml")
    written = (tmp_path / "train.sokovan.yaml").read_text()
    assert written.startswith("# yaml-language-server: $schema=")
    (tmp_path / "train.sokovan.yaml").write_text(SPEC)
    said(sokovan_in(tmp_path, cluster, "plan", "-f", "train.sokovan.yaml"), "would start now", "queue research")
    train = sokovan_in(tmp_path, cluster, "run", "-f", "train.sokovan.yaml")
    assert said(train, "train  finished, exit 0") == "epoch 1\n"
    again = sokovan_in(tmp_path.parent, cluster, "run", "-n", "again", "-f", f"{tmp_path.name}/train.sokovan.yaml")
    assert said(again) == "epoch 1\n"

    for name in ("head", second.name):
        said(cluster.cli("agent", "label", name, "rack=r03"))
    said(cluster.cli("topology", "apply", "-f", "-", stdin="tiers: [rack]\n"))
    script = "echo $SOKOVAN_RANK of $SOKOVAN_SIZE at $MASTER_ADDR:$MASTER_PORT; exec sleep 600"
    gang = ("--size", "4", "--gpus", "8", "--topology", "hard:rack", *LITTLE, "--queue", "research", "-d")
    said(sokovan_in(tmp_path, cluster, "run", "-n", "ddp", *gang, "--", "sh", "-c", script))
    cluster.reaches("ddp", "running")
    for rank in range(4):
        assert f"{rank} of 4 at " in cluster.says("ddp", " of 4", kernel=rank)
    said(sokovan_in(tmp_path, cluster, "run", "-n", "tune-9", *gang, "--", "true"))
    listed = said(cluster.cli("ps"))
    assert re.search(r"^ddp +RUNNING .*4/4", listed, flags=re.MULTILINE), listed
    assert re.search(r"^tune-9 +PENDING", listed, flags=re.MULTILINE), listed
    until(lambda: "cuda.device" in cluster.cli("why", "tune-9").stdout, what="why explains what tune-9 lacks")
    said(cluster.cli("logs", "ddp", "--kernel", "2"), "2 of 4")
    assert said(cluster.cli("exec", "ddp", "--kernel", "1", "--", "sh", "-c", "echo $SOKOVAN_RANK")) == "1\n"
    said(cluster.cli("cancel", "tune-9"))
    said(cluster.cli("stop", "ddp", "--yes"))
    cluster.settles("ddp")


TWIN = """
import sokovan
s = sokovan.run(["sh", "-c", "echo twin $SOKOVAN_RANK"], size=2, resources={"cpu": 0.2, "mem": "64MiB"})
view = s.wait("RUNNING"); print(bool(s.why() or s.where))
for piece in s.logs(follow=True): print(piece.kernel, piece.content.decode().strip())
"""


def test_the_same_from_python(cluster: Embedded, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", TWIN],
        env=cluster.environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["0 twin 0", "1 twin 1", "True"]


def test_an_administrator_adds_a_machine_sets_limits_and_drains(cluster: Embedded, second: AgentProcess) -> None:
    cluster.end_all()
    agents = said(cluster.cli("agent", "ls"))
    for name in ("head", second.name):
        assert re.search(rf"^{name} +ALIVE .*0/16", agents, flags=re.MULTILINE), agents
    said(cluster.cli("agent", "label", second.name, "rack=r01"))
    assert cluster.cli_json("agent", "show", second.name)["labels"]["rack"] == "r01"

    said(cluster.cli("quota", "set", "group:default", "gpu=8"))
    said(cluster.cli("queue", "set", "research", "--weight", "3", "--max", "gpu=256"))
    queues = said(cluster.cli("queue", "ls"))
    assert re.search(r"^research +\S+ .*3", queues, flags=re.MULTILINE), queues
    said(cluster.cli("run", "-n", "holder", "--gpus", "8", *LITTLE, "--workdir", "none", "-d", "--", "sleep", "600"))
    cluster.reaches("holder", "running")
    said(cluster.cli("run", "-n", "greedy", "--gpus", "1", *LITTLE, "-d", "--", "true"))
    until(lambda: "QUOTA_GROUP" in cluster.cli("why", "greedy").stdout, what="why names the quota")
    said(cluster.cli("why", "--all"), "QUOTA_GROUP")
    said(cluster.cli("cancel", "greedy"))
    said(cluster.cli("stop", "holder", "--yes"))
    cluster.settles("holder")
    said(cluster.cli("quota", "set", "group:default", ""))

    said(cluster.cli("agent", "drain", second.name, "--reason", "dimm swap"))
    assert re.search(rf"^{second.name} +DRAINING", said(cluster.cli("agent", "ls")), flags=re.MULTILINE)
    assert "dimm swap" in said(cluster.cli("agent", "history", second.name))
    placed = said(cluster.cli("run", *LITTLE, "--gpus", "1", "-d", "-n", "elsewhere", "--", "true")).strip()
    assert {kernel["agent"] for kernel in cluster.reaches(placed, "running", "terminated")["kernels"]} == {"head"}
    said(cluster.cli("agent", "undrain", second.name))
    assert re.search(rf"^{second.name} +ALIVE", said(cluster.cli("agent", "ls")), flags=re.MULTILINE)
