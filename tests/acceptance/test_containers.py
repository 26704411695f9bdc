"""Sessions as containers of a Docker Engine: by command, seen, kept over a restart of the server, and none left."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator

import httpx2
import pytest

from sokovan.adapters.process.layout import KernelLayout
from sokovan.domain.ids import KernelId
from sokovan.testing.servers import DockerServer
from sokovan.testing.servers.docker import PYTHON_IMAGE
from tests.acceptance.embedded import Embedded, until
from tests.acceptance.endings import ended_well

SMALL_FLAGS = ("--cpus", "0.2", "--mem", "64MiB", "--workdir", "none")
# Whether it may write in its image, its privileges, and what it was granted.
LOOKS = """
import os, pathlib
try:
    pathlib.Path('/usr/mark').touch()
    print('root is writable')
except OSError as problem:
    print('root:', problem.strerror)
facts = dict(line.split(':', 1) for line in open('/proc/self/status'))
print('capabilities', int(facts['CapEff'], 16), 'new privileges', 1 - int(facts['NoNewPrivs']))
print('memory', open('/sys/fs/cgroup/memory/memory.limit_in_bytes').read().strip()
      if os.path.exists('/sys/fs/cgroup/memory') else open('/sys/fs/cgroup/memory.max').read().strip())
pathlib.Path(os.environ['SOKOVAN_OUTPUT'], 'result').write_text('42')
"""
# The devices that it may name, and the folder of the machine that its volume is.
GREEDY = """
import os
open('/data/mark', 'w').close()
mounts = [line.split() for line in open('/proc/self/mountinfo')]
print(os.environ['NVIDIA_VISIBLE_DEVICES'], *(fields[3] for fields in mounts if fields[4] == '/data'))
"""


@pytest.fixture(scope="module")
def containers(tmp_path_factory: pytest.TempPathFactory, docker_server: DockerServer) -> Iterator[Embedded]:
    """`sokovan up --runtime docker` on the engine of the tests."""
    server = Embedded(tmp_path_factory.mktemp("containers"))
    with ended_well(server):
        server.start("--runtime", "docker", "--engine", docker_server.url)
        known = server.cli("image", "set", PYTHON_IMAGE)
        assert known.returncode == 0, known.stderr
        yield server


def labels_of(engine: DockerServer, kernel: str) -> list[dict[str, str]]:
    """The labels of the containers of a kernel."""
    return [one for one in engine.labels() if one.get("sokovan.kernel") == kernel]


def test_a_command_runs_in_a_container_with_its_limits_and_no_privileges(containers: Embedded) -> None:
    done = containers.cli("run", "-n", "looks", "--image", PYTHON_IMAGE, *SMALL_FLAGS, "--", "python", "-c", LOOKS)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines == ["root: Read-only file system", "capabilities 0 new privileges 0", f"memory {64 << 20}"]
    assert PYTHON_IMAGE in containers.cli("session", "show", "looks").stdout
    [agent] = containers.cli_json("agent", "ls")
    assert "Docker" in containers.cli("agent", "show", agent["name"] if "name" in agent else agent["id"]).stdout
    copied = containers.cli("cp", "looks:output/result", "result")
    assert copied.returncode == 0, copied.stderr
    assert (containers.folder / "result").read_text(encoding="ascii") == "42"


def test_an_image_chooses_neither_devices_nor_space_of_the_engine(
    containers: Embedded, docker_server: DockerServer
) -> None:
    changes = ("VOLUME /data", "ENV NVIDIA_VISIBLE_DEVICES=all", "HEALTHCHECK CMD python -c pass")
    image = docker_server.add_derived_image("sokovan-test/greedy:1", *changes)
    assert containers.cli("image", "set", image).returncode == 0
    done = containers.cli("run", "-n", "greedy", "--image", image, *SMALL_FLAGS, "--", "python", "-c", GREEDY)
    assert done.returncode == 0, done.stderr
    devices, source = done.stdout.split()
    assert devices == "void"
    assert "/agent/kernels/" in source, "the volume is no folder of the kernel"


def test_an_image_that_the_engine_can_not_get_is_refused_by_name(containers: Embedded) -> None:
    missing = "127.0.0.1:9/no/such:image"
    assert containers.cli("image", "set", missing).returncode == 0
    done = containers.cli("run", "-n", "missing", "--image", missing, *SMALL_FLAGS, "--", "python")
    assert done.returncode != 0
    ended = containers.settles("missing")
    assert ended["reason"] == "image-unavailable"
    assert missing in containers.cli("why", "missing").stdout


def test_only_the_image_with_the_digest_of_the_catalog_is_started(
    containers: Embedded, docker_server: DockerServer
) -> None:
    image = docker_server.add_derived_image("sokovan-test/pinned:1", "ENV PINNED=first")
    pinned = docker_server.image_id(image)
    assert containers.cli("image", "set", image, "--digest", pinned).returncode == 0
    given = ("--image", image, *SMALL_FLAGS, "--", "python", "-c", "import os; print(os.environ['PINNED'])")
    done = containers.cli("run", "-n", "pinned", *given)
    assert (done.returncode, done.stdout) == (0, "first\n"), done.stderr
    moved = docker_server.add_derived_image("sokovan-test/moved:1", "ENV PINNED=second")
    assert containers.cli("image", "set", moved, "--digest", pinned).returncode == 0
    assert containers.cli("run", "-n", "moved", "--image", moved, *given[2:]).returncode != 0
    ended = containers.settles("moved")
    assert ended["reason"] == "image-unavailable"
    told = containers.cli("why", "moved").stdout
    for digest in (pinned, docker_server.image_id(moved)):
        assert digest in "".join(told.split()), told


def test_a_container_without_a_kernel_is_found_by_its_labels_and_ended(
    containers: Embedded, docker_server: DockerServer
) -> None:
    given = ("run", "-d", "-n", "orphan", "--image", PYTHON_IMAGE, *SMALL_FLAGS)
    submitted = containers.cli(*given, "--", "python", "-c", "import time; time.sleep(3600)")
    assert submitted.returncode == 0, submitted.stderr
    containers.reaches("orphan", "running")
    [kernel] = containers.session("orphan")["kernels"]
    [labels] = labels_of(docker_server, kernel["id"])
    layout = KernelLayout(containers.data / "agent" / "kernels")
    # The files of the kernel are gone, but not its container.
    shutil.rmtree(layout.folder(KernelId(kernel["id"]), 1))
    until(
        lambda: labels not in labels_of(docker_server, kernel["id"]),
        what="the container is ended",
        tell=lambda: str(docker_server.labels()),
    )
    containers.end("orphan", forced=True)
    containers.settles("orphan")


def test_a_container_outlives_the_server_and_is_adopted(containers: Embedded, docker_server: DockerServer) -> None:
    script = "import time; print('up', flush=True); time.sleep(3600)"
    given = ("run", "-d", "-n", "stays", "--image", PYTHON_IMAGE, *SMALL_FLAGS)
    submitted = containers.cli(*given, "--", "python", "-c", script)
    assert submitted.returncode == 0, submitted.stderr
    containers.reaches("stays", "running")
    containers.says("stays", "up")
    [kernel] = containers.session("stays")["kernels"]
    [before] = labels_of(docker_server, kernel["id"])
    named = {name: before[f"sokovan.{name}"] for name in ("kernel", "attempt", "session")}
    assert named == {"kernel": kernel["id"], "attempt": "1", "session": containers.session("stays")["id"]}
    assert int(before["sokovan.incarnation"]) >= 1
    containers.kill()
    containers.start("--runtime", "docker", "--engine", docker_server.url)
    containers.reaches("stays", "running")
    # The next incarnation of the agent has adopted it: it is the same container.
    assert labels_of(docker_server, kernel["id"]) == [before]
    inside = "import os, json; print(json.dumps(os.environ['SOKOVAN_SESSION_ID']))"
    ran = containers.cli("exec", "stays", "--", "python", "-c", inside)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == containers.session("stays")["id"]
    assert containers.output("stays") == "up\n"
    containers.end("stays")
    containers.settles("stays")
    until(
        lambda: not docker_server.containers(),
        what="no container is left",
        tell=lambda: str(docker_server.containers()),
    )


# The program of an image that serves as a NIM does: told by variables only.
SERVES = """
import json, os, socket
listener = socket.create_server(('127.0.0.1', int(os.environ['NIM_SERVER_PORT'])))
while True:
    with listener.accept()[0] as connection, connection.makefile('rb') as request:
        length = 0
        for line in request:
            name, _, value = line.lower().strip().partition(b':')
            length = int(value) if name == b'content-length' else length
            if not name:
                break
        request.read(length)
        text = f"from the image for {os.environ['NIM_SERVED_MODEL_NAME']}"
        body = json.dumps({'choices': [{'message': {'content': text}}], 'usage': {'total_tokens': 3}})
        head = f'HTTP/1.1 200 OK\\r\\nconnection: close\\r\\ncontent-length: {len(body)}\\r\\n\\r\\n'
        connection.sendall((head + body).encode())
"""


def test_a_nim_is_served_by_the_entry_point_of_its_image(containers: Embedded, docker_server: DockerServer) -> None:
    entry = f"ENTRYPOINT {json.dumps(['python', '-c', SERVES])}"
    image = docker_server.add_derived_image("sokovan-test/nim:1", entry, "CMD []")
    assert containers.cli("image", "set", image).returncode == 0
    size = ("--cpus", "0.2", "--mem", "64MiB")
    options = ("--name", "nim", "--engine", "nim", "--image", image, *size, "--detach")
    done = containers.cli("serve", "some/model", *options)
    assert done.returncode == 0, done.stderr
    until(
        lambda: containers.cli_json("deployment", "show", "nim")["replicas_active"] == 1,
        limit_s=60,
        what="it serves",
        tell=lambda: containers.cli("deployment", "why", "nim").stdout,
    )
    key = containers.cli_json("token", "create", "nim")["token"]
    body = {"model": "nim", "messages": [{"role": "user", "content": "hello"}]}
    headers = {"authorization": f"Bearer {key}"}
    url = f"{containers.about['gateway']}/v1/chat/completions"
    answer = httpx2.post(url, json=body, headers=headers, timeout=60, trust_env=False)
    assert answer.json()["choices"][0]["message"]["content"] == "from the image for nim", answer.text
    assert containers.cli("deployment", "rm", "nim", "--yes").returncode == 0
    until(lambda: not containers.cli_json("deployment", "ls"), what="the deployment has ended")
