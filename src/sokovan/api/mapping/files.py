"""Converts listings of files to wire types, and refusals of agents to errors."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

from sokovan.api.mapping.times import time_text, time_text_or_none
from sokovan.ports.agent_gateway import AgentRefused
from sokovan.ports.kernel_files import FileInfo, FileListing, FileMissing, FileRefused, OutputState
from sokovan.ports.runtime import RuntimeFailure
from sokovan.wire.api.files import FilePage, FileView, OutputView

T = TypeVar("T")


def file_page(listing: FileListing, kernel: int, path: str, *, bytes_max: int) -> FilePage:
    """A page of files, each with its full path."""
    kept_until = listing.output.kept_until_ms if listing.output is not None else None
    above = path.rstrip("/")
    return FilePage(
        items=[_view(one, kernel, above, kept_until) for one in listing.files],
        is_folder=listing.is_folder,
        bytes_max=bytes_max,
        next=listing.files[-1].path if listing.more and listing.files else None,
        left_out=listing.left_out,
        left_out_names=list(listing.left_out_names),
        output=_output(listing.output),
    )


def _view(one: FileInfo, kernel: int, above: str, kept_until_ms: int | None) -> FileView:
    return FileView(
        kernel=kernel,
        path="/".join(part for part in (above, one.path) if part),
        size=one.size,
        modified_at=time_text(max(0, one.modified_ms)),
        executable=one.executable,
        kept_until=time_text_or_none(kept_until_ms),
    )


def _output(state: OutputState | None) -> OutputView | None:
    if state is None:
        return None
    return OutputView(
        session_bytes_max=state.session_bytes_max,
        owner_bytes=state.owner_bytes,
        owner_bytes_max=state.owner_bytes_max,
        kept_until=time_text_or_none(state.kept_until_ms),
        dropped_files=state.dropped_files,
        dropped_bytes=state.dropped_bytes,
    )


async def file_answer(answer: Awaitable[T]) -> T:
    """The answer of an agent, with its refusals as the errors that they are."""
    try:
        return await answer
    except AgentRefused as refusal:
        message = refusal.problem.removesuffix(f" [{refusal.reason}]")
        kinds: dict[str, type[RuntimeFailure]] = {one.code: one for one in (FileRefused, FileMissing)}
        raise kinds.get(refusal.reason, RuntimeFailure)(message) from refusal
