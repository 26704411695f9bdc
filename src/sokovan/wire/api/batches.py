"""JSON types of requests for many sessions at once."""

from __future__ import annotations

from dataclasses import dataclass

from sokovan.wire.api.bodies import StrictBody
from sokovan.wire.api.system import ProblemView

# The paths, the media type of a request, and the largest number of its lines.
BATCH_PATH = "/api/v1/sessions:batch"
STOP_PATH = "/api/v1/sessions:stop"
LINES_MEDIA = "application/x-ndjson"
SESSIONS_MAX = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchItemView:
    """The outcome of one request of a batch: the session, or a problem.

    `fresh` is false for a session that an earlier equal request created.
    """

    session: str | None = None
    name: str | None = None
    fresh: bool = False
    problem: ProblemView | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchView:
    """The outcomes of a batch, in the order of its lines."""

    items: list[BatchItemView]
    accepted: int
    refused: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StopBody(StrictBody):
    """A session to end: its id, its name, or a unique prefix of one."""

    session: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StopItemView:
    """The outcome of one line: the session that ends or has ended, or a problem."""

    id: str | None = None
    name: str | None = None
    status: str | None = None
    problem: ProblemView | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StopView:
    """The outcomes of a request to end sessions, in the order of its lines."""

    items: list[StopItemView]
    accepted: int
    refused: int
