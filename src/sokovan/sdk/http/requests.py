"""An HTTP request as data, and the ways in which it fails."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """A request; `target` is the path with the query.

    A connection is awaited for `connect_s`, each part of the response for `read_s`.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    content: bytes | None = None
    read_s: float
    connect_s: float


class HttpFailure(Exception):  # the reader expects a failure, not an error of the caller
    """A request without a complete response; `sent` if it may have arrived."""

    def __init__(self, error: Exception, *, sent: bool, slow: bool = False) -> None:
        self.sent, self.slow = sent, slow
        super().__init__(str(error) or type(error).__name__)
