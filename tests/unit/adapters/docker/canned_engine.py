"""A container engine of canned answers on a Unix socket, which keeps what it was asked."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from sokovan.adapters.docker.engine.client import EngineClient

VERSION = {"ApiVersion": "1.41", "MinAPIVersion": "1.12", "Version": "20.10", "Components": [{"Name": "Engine"}]}
Answers = Mapping[str, tuple[int, Any]]


class CannedEngine:
    """Answers requests by "METHOD /path"; everything else is not found."""

    def __init__(self, socket: Path, answers: Answers) -> None:
        self.answers = {"GET /version": (200, VERSION), **answers}
        self.client = EngineClient(socket)
        self.asked: list[str] = []
        self.bodies: dict[str, Any] = {}

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request, and close the connection."""
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            method, target, _ = head.split(" ", 2)
            fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line)
            body = await reader.readexactly(int(fields.get("content-length", "0")))
            path = target.partition("?")[0]
            path = path if path == "/version" else path.removeprefix("/v1.41")
            name = f"{method} {path}"
            self.asked.append(f"{method} {target.removeprefix('/v1.41')}")
            if body:
                self.bodies[name] = json.loads(body)
            status, content = self.answers.get(name, (404, {"message": f"no {path}"}))
            data = content if isinstance(content, bytes) else b"" if content is None else json.dumps(content).encode()
            writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
            await writer.drain()
        writer.close()


@asynccontextmanager
async def canned_engine(answers: Answers | None = None) -> AsyncIterator[CannedEngine]:
    """An engine that listens in a folder of its own: paths of sockets are short."""
    folder = Path(tempfile.mkdtemp(prefix="engine-"))
    engine = CannedEngine(folder / "s", answers or {})
    server = await asyncio.start_unix_server(engine.answer, str(folder / "s"))
    try:
        yield engine
    finally:
        server.close()
        shutil.rmtree(folder)


def frame(text: bytes, at: str = "2026-01-01T00:00:00.000000001Z", stream: int = 1) -> bytes:
    """A piece of output as an engine sends it, with its time."""
    content = at.encode() + b" " + text
    return bytes([stream, 0, 0, 0]) + len(content).to_bytes(4) + content
