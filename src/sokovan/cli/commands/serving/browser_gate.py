"""The gate before the local address of `sokovan open`: a ticket, then a cookie.

Any program of this machine and any page in the browser can connect to a local port. A
request goes on only with the cookie that the ticket was exchanged for, and only if it is
for this origin and from it. Nothing here reads or writes.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from html import escape
from typing import NamedTuple, TypeAlias

TICKET_S = 60
HEAD_BYTES_MAX = 65_536
OPEN_PATH = "/-/open"
COOKIE = "sokovan-open"
_FIELD: TypeAlias = tuple[str, str]
_PAGE = "<!doctype html><title>sokovan</title><p>{}</p>\n"


class Passed(NamedTuple):
    """A request that goes on, with the head that the session gets."""

    head: bytes


class BrowserGate:
    """Decides about each request to one local address.

    `host` is `PORT--SESSION.localhost:LOCAL`; `ticket` opens it once, until `ends_s`. The
    session sees `localhost`, which programs such as Jupyter accept as a local name.
    """

    def __init__(self, host: str, *, ticket: str, cookie: str, ends_s: float) -> None:
        self._host, self._cookie, self._ends_s = host.lower(), cookie, ends_s
        self._ticket: str | None = ticket
        self._inside = "localhost:" + host.rpartition(":")[2]

    def decide(self, head: bytes, now_s: float) -> Passed | bytes:
        """The head for the session, or the response of the gate itself."""
        found = _read(head)
        if found is None:
            return _response("400 Bad Request", "This is not a request of HTTP/1.1.")
        (method, target), fields = found
        if _values(fields, "host") != [self._host]:
            return _response("421 Misdirected Request", "This address is for another host.")
        origins = _values(fields, "origin")
        if origins not in ([], [f"http://{self._host}"]):
            return _response("403 Forbidden", "Requests of other pages are refused.")
        path, _, query = target.partition("?")
        if path == OPEN_PATH:
            return self._exchange(query, now_s) if method == "GET" else _response("405 Method Not Allowed", "Use GET.")
        if not any(_same(value, self._cookie) for value in _cookies(fields, COOKIE)):
            return _response("403 Forbidden", "Run sokovan open, and use the address that it prints.")
        return Passed(self._rewritten(method, target, fields))

    def _exchange(self, query: str, now_s: float) -> bytes:
        """Exchange the ticket for the cookie, once."""
        given, ticket = query.removeprefix("ticket="), self._ticket
        if ticket is None or now_s >= self._ends_s or not _same(given, ticket):
            return _response("403 Forbidden", "The ticket was used or is too old. Run sokovan open again.")
        self._ticket = None
        cookie = f"{COOKIE}={self._cookie}; HttpOnly; SameSite=Strict; Path=/"
        return _response("303 See Other", "", ("Location: /", f"Set-Cookie: {cookie}", "Referrer-Policy: no-referrer"))

    def _rewritten(self, method: str, target: str, fields: Sequence[_FIELD]) -> bytes:
        """The head without our cookie, for one request of its connection."""
        upgrades = any(value.lower() == "websocket" for value in _values(fields, "upgrade"))
        lines = [f"{method} {target} HTTP/1.1", f"Host: {self._inside}"]
        for name, value in fields:
            if name in {"host", "connection", "keep-alive", "proxy-connection"}:
                continue
            if name == "origin":
                lines.append(f"Origin: http://{self._inside}")
            elif name == "referer":
                # Programs compare it with their own name; one of another page is not passed on.
                origin = f"http://{self._host}/"
                if value.lower().startswith(origin):
                    lines.append(f"Referer: http://{self._inside}/{value[len(origin) :]}")
            elif name == "cookie":
                kept = [crumb for crumb in value.split(";") if crumb.strip().partition("=")[0] != COOKIE]
                lines += [f"Cookie: {';'.join(kept).strip()}"] if kept else []
            else:
                lines.append(f"{name}: {value}")
        # Each request is checked: the next one comes on a connection of its own.
        lines.append("Connection: Upgrade" if upgrades else "Connection: close")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def unreachable(problem: str) -> bytes:
    """The response for a request that the application could not get."""
    return _response("502 Bad Gateway", f"The application does not answer: {escape(problem)}. Try again later.")


def _read(head: bytes) -> tuple[tuple[str, str], list[_FIELD]] | None:
    """Method and target, and the fields with names in lower case; None if malformed."""
    lines = head.removesuffix(b"\r\n\r\n").decode("latin-1").split("\r\n")
    words = lines[0].split(" ")
    if len(words) != 3 or words[2] != "HTTP/1.1" or not words[1].startswith("/"):
        return None
    fields: list[_FIELD] = []
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip() or any(one in line for one in "\r\n\0"):
            return None
        fields.append((name.lower(), value.strip()))
    return (words[0], words[1]), fields


def _values(fields: Sequence[_FIELD], wanted: str) -> list[str]:
    return [value.lower() if wanted in {"host", "origin"} else value for name, value in fields if name == wanted]


def _cookies(fields: Sequence[_FIELD], wanted: str) -> list[str]:
    crumbs = [crumb.strip().partition("=") for value in _values(fields, "cookie") for crumb in value.split(";")]
    return [value for name, _, value in crumbs if name == wanted]


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())


def _response(status: str, text: str, fields: Sequence[str] = ()) -> bytes:
    body = _PAGE.format(text).encode() if text else b""
    lines = [f"HTTP/1.1 {status}", "Content-Type: text/html; charset=utf-8", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, *fields, "Cache-Control: no-store", "Connection: close", "", ""]).encode() + body
