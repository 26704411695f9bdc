"""JSON types of requests for many sessions at once."""

from __future__ import annotations

from dataclasses import dataclass

from sokovan.wire.api.system import ProblemView

# The path, the media type of a request, and the largest number of its lines.
BATCH_PATH = "/api/v1/sessions:batch"
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
