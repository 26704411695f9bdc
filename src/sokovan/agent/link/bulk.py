"""Requests that need no judgement: output of kernels, and commands in them."""

from __future__ import annotations

from functools import partial

from sokovan.agent.journal_records import KernelKey
from sokovan.agent.link.command_streams import CommandStreams
from sokovan.agent.link.manager_link import ManagerLink
from sokovan.agent.link.translation import reply_of
from sokovan.domain.errors import SokovanError
from sokovan.ports.runtime import KernelRuntime
from sokovan.wire.frames import Done, OpenStream, ReadLog, Reply, Request

LOG_BYTES_MAX = 256 << 10


class BulkService:
    """Answers from the runtime alone, each beside the rest."""

    def __init__(self, runtime: KernelRuntime) -> None:
        self._runtime = runtime
        self._streams = CommandStreams(runtime)

    async def serve(self, link: ManagerLink, request: Request) -> None:
        """Do what was asked; whoever asked hears what came of it, or what went wrong.

        Requests do not outlive their link, and a link that opens anew has another number.
        """
        opening, number = link.number, request.number
        try:
            await self._served(link, request, opening)
        except SokovanError as problem:
            code, message = problem.code, problem.message
        except Exception as problem:  # noqa: BLE001  # a defect of a runtime ends no agent, and the asker hears of it
            code, message = "runtime-failure", repr(problem)
        else:
            return
        if link.number == opening:
            link.problem(number, code, message)

    async def _served(self, link: ManagerLink, request: Request, opening: int) -> None:
        answer = partial(_answer, link, opening, request.number)
        match request.ask:
            case ReadLog() as ask:
                key, limit = KernelKey.of(ask), min(ask.limit, LOG_BYTES_MAX)
                part = await self._runtime.read_log(key.kernel_id, key.attempt, offset=ask.offset, limit=limit)
                answer(reply_of(part))
            case OpenStream() as ask:
                await self._streams.run(link.address, ask, partial(answer, Done()))
            case _:
                pass


def _answer(link: ManagerLink, opening: int, number: int, reply: Reply) -> None:
    if link.number == opening:
        link.answer(number, reply)
