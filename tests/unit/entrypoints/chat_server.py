"""A small server that answers chats as a gateway does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass
class ChatServer:
    """What it answers with, and what it was asked."""

    url: str = ""
    status: str = "200 OK"
    lines: list[str] = field(default_factory=list)
    asked: list[tuple[str, Any]] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
        body = await reader.readexactly(int(fields["content-length"]))
        self.asked.append((fields.get("authorization", ""), json.loads(body)))
        content = "\n".join(self.lines).encode()
        writer.write(f"HTTP/1.1 {self.status}\r\nconnection: close\r\n\r\n".encode() + content)
        await writer.drain()
        writer.close()


def delta(text: str) -> str:
    """A line of a stream with a part of an answer."""
    return "data: " + json.dumps({"choices": [{"delta": {"content": text}}]}) + "\n"


@asynccontextmanager
async def chat_server() -> AsyncIterator[ChatServer]:
    """A server on a free port."""
    made = ChatServer()
    listener = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1"
    async with listener:
        yield made
