"""A Docker Engine for tests, with an image made of this interpreter."""

from __future__ import annotations

import http.client
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from sokovan.testing.servers.process import ServerProcess, ServerProcessFailed

PROGRAM = "dockerd"
REPLY_LIMIT_S = 120.0
PYTHON_IMAGE = "sokovan-test/python:1"
_PROGRAMS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Parts of the standard library that no kernel of a test uses.
_LEFT_OUT = ("test", "tests", "site-packages", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3", "pydoc_data")
_ENDINGS_LEFT_OUT = (".opt-1.pyc", ".opt-2.pyc", ".a", ".exe")


class _SocketConnection(http.client.HTTPConnection):
    """A connection to a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("engine", timeout=REPLY_LIMIT_S)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(REPLY_LIMIT_S)
        self.sock.connect(str(self._path))


class DockerServer(ServerProcess):
    """A Docker Engine with its data and its socket in a temporary folder.

    Its containers have the network of the machine or none, so that it changes no rule of it.
    """

    environment = "SOKOVAN_TEST_DOCKER_URL"
    # An orderly end takes ten seconds; its containers are removed before, and its data is not used again.
    stop_signal = signal.SIGKILL

    @property
    def url(self) -> str:
        """The URL of its socket."""
        return self._given_url or f"unix://{self.folder}/docker.sock"

    @property
    def socket(self) -> Path:
        """The path of its socket."""
        return Path(self.url.removeprefix("unix://"))

    @staticmethod
    def absence() -> str:
        """Why no engine can be started on this machine; empty if one can."""
        if shutil.which(PROGRAM, path=_PROGRAMS) is None:
            return "Docker Engine is not installed (Debian: docker.io)"
        return "" if os.geteuid() == 0 else "a Docker Engine is started by the superuser only"

    def _choose_ports(self) -> None:
        """It has no port."""
        self.port = 1

    @property
    def _variables(self) -> Mapping[str, str]:
        return {**super()._variables, "PATH": _PROGRAMS}

    def _arguments(self) -> Sequence[str]:
        """`dockerd` without a network of its own."""
        program = shutil.which(PROGRAM, path=_PROGRAMS)
        if program is None:
            raise ServerProcessFailed(self.absence())
        settings = {
            "host": self.url,
            "data-root": str(self.folder / "data"),
            "exec-root": str(self.folder / "run"),
            "pidfile": str(self.folder / "docker.pid"),
            "bridge": "none",
            "iptables": "false",
            "ip6tables": "false",
            "shutdown-timeout": "2",
            "log-level": "warn",
        }
        return [program, *(f"--{name}={value}" for name, value in settings.items())]

    def answers(self) -> bool:
        """Whether it answers a ping."""
        try:
            return self._reply("GET", "/_ping")[0] == http.client.OK
        except (OSError, http.client.HTTPException):
            return False

    def add_python_image(self, name: str = PYTHON_IMAGE) -> str:
        """Add an image with this interpreter as `python`, and return its name."""
        repository, _, tag = name.rpartition(":")
        status, said = self._reply("POST", f"/images/create?fromSrc=-&repo={repository}", python_archive())
        last = json.loads(said.splitlines()[-1]) if said.strip() else {}
        if status != http.client.OK or "error" in last:
            raise ServerProcessFailed(f"the image of the tests was not created: {said.decode(errors='replace')[:500]}")
        # Podman ignores a tag at the creation.
        status, said = self._reply("POST", f"/images/{repository}:latest/tag?repo={repository}&tag={tag}")
        if status != http.client.CREATED:
            raise ServerProcessFailed(f"the image of the tests has no name: {said.decode(errors='replace')[:500]}")
        return name

    def add_derived_image(self, name: str, *changes: str) -> str:
        """Add the image of the tests with instructions, such as `VOLUME /data`."""
        body = json.dumps({"Image": PYTHON_IMAGE, "Cmd": ["python"]}).encode()
        container = json.loads(self._reply("POST", "/containers/create", body, "application/json")[1])["Id"]
        repository, _, tag = name.rpartition(":")
        query = urlencode(
            [("container", container), ("repo", repository), ("tag", tag), *(("changes", one) for one in changes)]
        )
        status, said = self._reply("POST", f"/commit?{query}", b"{}", "application/json")
        self.remove(container)
        if status != http.client.CREATED:
            raise ServerProcessFailed(f"{name} was not created: {said.decode(errors='replace')[:500]}")
        return name

    def close(self) -> None:
        """Remove all containers and end it."""
        if self.running:
            for container in self.containers():
                self.remove(container)
            folder = str(self.folder)
            self.kill()
            _unmount_below(folder)
        super().close()

    def containers(self) -> list[str]:
        """The names of all containers, running or not."""
        return [name.removeprefix("/") for one in self._listed() for name in one["Names"]]

    def labels(self) -> list[dict[str, str]]:
        """The labels of all containers."""
        return [dict(one["Labels"] or {}) for one in self._listed()]

    def image_id(self, name: str) -> str:
        """The id of an image."""
        return str(json.loads(self._reply("GET", f"/images/{name}/json")[1])["Id"])

    def remove(self, container: str) -> None:
        """Remove a container by force."""
        self._reply("DELETE", f"/containers/{container}?force=1")

    def _listed(self) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = json.loads(self._reply("GET", "/containers/json?all=1")[1])
        return listed

    def _reply(
        self, method: str, path: str, body: bytes | None = None, kind: str = "application/x-tar"
    ) -> tuple[int, bytes]:
        connection = _SocketConnection(self.socket)
        try:
            headers = {"Content-Type": kind} if body is not None else {}
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


def _unmount_below(folder: str) -> None:
    """Unmount what a killed engine leaves mounted, so that its folder can be removed."""
    mounted = [line.split()[1] for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
    for place in sorted((place for place in mounted if place.startswith(f"{folder}/")), reverse=True):
        subprocess.run(["umount", "-l", place], check=False)  # noqa: S603, S607  # a mount of the engine of the tests


def python_archive() -> bytes:
    """The root of a file system with this interpreter and its library."""
    program = Path(os.path.realpath(sys.executable))
    library = Path(os.__file__).parent
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for path in sorted({program, *_shared_libraries(program)}):
            archive.add(os.path.realpath(path), arcname=str(path).lstrip("/"), filter=_plain)
        for entry in sorted(library.iterdir()):
            if entry.name not in _LEFT_OUT and not entry.name.startswith("config-"):
                archive.add(entry, arcname=str(entry).lstrip("/"), filter=_plain)
        for name in ("python", "python3"):
            link = tarfile.TarInfo(f"usr/bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, str(program)
            archive.addfile(link)
    return content.getvalue()


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Files that every user may read; None for those left out."""
    if entry.name.rpartition("/")[2] in _LEFT_OUT or entry.name.endswith(_ENDINGS_LEFT_OUT):
        return None
    entry.mode |= 0o555 if entry.isdir() or entry.mode & 0o100 else 0o444
    entry.uid = entry.gid = 0
    return entry


def _shared_libraries(program: Path) -> list[Path]:
    """The libraries that a program loads, at the paths where it looks for them."""
    listed = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True)  # noqa: S603, S607  # of this interpreter
    words = (word for line in listed.stdout.splitlines() for word in line.split())
    return [Path(word) for word in words if word.startswith("/")]
