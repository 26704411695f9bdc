"""Which names this server answers to: a page of another site gets nothing from it.

A browser can be made to send requests to loopback under a foreign name (DNS
rebinding), or from a foreign page. Both headers are its own, and tell on it.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from sokovan.api.errors import ForeignOrigin

_HOST = re.compile(r"(?P<host>[A-Za-z0-9.\-_]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?", re.ASCII)
_ORIGIN = re.compile(r"https?://(?P<host>.+)", re.ASCII | re.IGNORECASE)


def host_name(text: str) -> str | None:
    """The name in a Host header, without its port, in lower case."""
    found = _HOST.fullmatch(text)
    return found["host"].lower() if found else None


def require_own(host: str | None, origin: str | None, allowed: Collection[str]) -> None:
    """Refuse a request for another host, or from a page of one. Raises ForeignOrigin."""
    if host_name(host or "") not in allowed:
        raise ForeignOrigin(header="Host", value=host or "")
    if origin is None:
        return
    found = _ORIGIN.fullmatch(origin)
    if found is None or host_name(found["host"]) not in allowed:
        raise ForeignOrigin(header="Origin", value=origin)
