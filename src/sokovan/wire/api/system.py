"""Errors, events and the state of the system on the wire."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldProblem:
    """What is wrong with one value of a request; `where` is its path, as a/0/b."""

    where: str
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemView:
    """An error (RFC 9457): `code` is stable, `hint` says what to do next."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    hint: str = ""
    request_id: str = ""
    problems: list[FieldProblem] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventView:
    """Something that happened to an object; `object` is its kind, `id` its name."""

    object: str
    id: str
    before: str | None
    after: str
    trigger: str
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthView:
    """Whether the parts of the system work."""

    status: str
    version: str
    parts: dict[str, str]
