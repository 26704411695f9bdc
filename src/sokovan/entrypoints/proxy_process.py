"""`sokovan proxy`: builds and runs the proxy of this machine."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx2
import msgspec

from sokovan.adapters.local.atomic_file import remove_unfinished, write_whole
from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.local.random_source import number, secret_text
from sokovan.domain.errors import SokovanError
from sokovan.entrypoints.proxy_workers import run_workers
from sokovan.proxy.accounts.key_limits import KeyAccounts
from sokovan.proxy.accounts.usage_ledger import UsageLedger
from sokovan.proxy.context import ProxyContext
from sokovan.proxy.control.control_link import WAIT_S, ControlLink, ProxyIdentity
from sokovan.proxy.proxy_server import ProxyServer
from sokovan.proxy.routing.choice import Draws
from sokovan.wire.serving.proxy_reports import UsageEntry
from sokovan.wire.serving.serving_codec import MalformedMessage, decode_update, encode

TABLE_FILE, USAGE_FILE = "table.json", "usage.json"
# Time that requests under way get when the proxy is stopped.
DRAIN_S = 30.0


class ProxyPortTaken(SokovanError):
    """The address of the gateway is in use, or not of this machine."""

    code = "proxy-port-taken"
    hint = "choose another address with --listen, or stop the process that uses it"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyOptions:
    """Options of a proxy.

    `manager` is the URL of the API; empty: the table on disk is served and nothing reported.
    `root` is its folder; each of several `workers` has one of its own in it.
    """

    manager: str
    token: str = field(repr=False)
    root: Path
    host: str = "127.0.0.1"
    port: int = 0
    workers: int = 1


class _Spool(msgspec.Struct, frozen=True):
    """The content of the usage file: identity, last number, entries not stored by the manager."""

    proxy_id: str
    incarnation: int
    sequence: int = 0
    entries: tuple[UsageEntry, ...] = ()


class ProxyFolder:
    """The files of one proxy process: its table, and its usage with its identity.

    Identity and numbers are in one file, so that they are lost together or not at all.
    """

    def __init__(self, root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._table, self._usage = root / TABLE_FILE, root / USAGE_FILE
        for path in (self._table, self._usage):
            remove_unfinished(path)
        spool = self._read_spool()
        self.identity = ProxyIdentity(spool.proxy_id, spool.incarnation + 1)
        self.ledger = UsageLedger(sequence=spool.sequence, entries=spool.entries)
        self.save_usage()

    def _read_spool(self) -> _Spool:
        try:
            return msgspec.json.decode(self._usage.read_bytes(), type=_Spool)
        except (FileNotFoundError, msgspec.DecodeError, UnicodeError):
            return _Spool(proxy_id=f"proxy-{secret_text(12)}", incarnation=0)

    def save_usage(self) -> None:
        """Write identity and usage durably. Raises OSError."""
        spool = _Spool(
            self.identity.proxy_id, self.identity.incarnation, self.ledger.sequence, tuple(self.ledger.entries)
        )
        write_whole(self._usage, msgspec.json.encode(spool))

    def save_table(self, content: bytes) -> None:
        """Write the table durably. Raises OSError."""
        write_whole(self._table, content)

    def load_table(self, server: ProxyServer, log: Callable[[str], None]) -> None:
        """Put the last table in force, if there is a valid one."""
        try:
            server.apply(decode_update(self._table.read_bytes()))
        except FileNotFoundError:
            return
        except MalformedMessage as problem:
            log(f"the table on disk is not used: {problem}")


def listening_socket(host: str, port: int, *, shared: bool) -> socket.socket:
    """A bound socket. Raises ProxyPortTaken.

    A `shared` one lets other processes bind the same port.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        found.bind((host, port))
    except OSError as error:
        found.close()
        raise ProxyPortTaken(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
    return found


def run_proxy(options: ProxyOptions, log: Callable[[str], None]) -> int:
    """Run a proxy until SIGINT or SIGTERM. Raises ProxyPortTaken."""
    several = options.workers > 1
    with contextlib.closing(listening_socket(options.host, options.port, shared=several)) as listener:
        if not several:
            return _run(options, listener, log)
        # It stays bound, so that every process gets the port that it was given; connections go to those that listen.
        port = listener.getsockname()[1]

        def work(worker: int) -> int:
            own = replace(options, port=port, root=options.root / f"worker-{worker}")
            with contextlib.closing(listening_socket(own.host, port, shared=True)) as shared:
                return _run(own, shared, log)

        return run_workers(options.workers, work, log=log)


def _run(options: ProxyOptions, listener: socket.socket, log: Callable[[str], None]) -> int:
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(serve(options, listener, log))
    return 0


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The factory of uvloop, where it is installed."""
    try:
        import uvloop  # noqa: PLC0415  # not on every platform
    except ImportError:
        return None
    return uvloop.new_event_loop


async def serve(options: ProxyOptions, listener: socket.socket, log: Callable[[str], None]) -> None:
    """Serve on a bound socket until SIGINT or SIGTERM, then drain."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for one in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(one, stopped.set)
    clock, folder = SystemClock(), ProxyFolder(options.root)
    context = ProxyContext(
        loop=loop,
        wall_ms=clock.now_ms,
        draws=Draws(number()),
        ledger=folder.ledger,
        log=log,
        accounts=KeyAccounts(workers=options.workers),
    )
    saver = TableSaver(context, folder)
    server = ProxyServer(context, clock=clock, changed=saver.changed.set)
    folder.load_table(server, log)
    async with contextlib.AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(server.run()), tasks.create_task(saver.run())]
        if options.manager:
            client = await stack.enter_async_context(_client(options))
            link = ControlLink(
                context, client, folder.identity, clock=clock, apply=server.apply, save_usage=folder.save_usage
            )
            running += [tasks.create_task(link.follow_table()), tasks.create_task(link.send_reports())]
        await server.listen(listener)
        host, port = listener.getsockname()[:2]
        log(f"the gateway is ready at http://{f'[{host}]' if ':' in host else host}:{port}")
        await stopped.wait()
        await server.drain(DRAIN_S)
        for task in running:
            task.cancel()
    context.ledger.close()
    folder.save_usage()


def _client(options: ProxyOptions) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        base_url=options.manager,
        headers={"authorization": f"Bearer {options.token}"},
        timeout=httpx2.Timeout(10.0, read=WAIT_S + 15.0),
        trust_env=False,
    )


class TableSaver:
    """Writes the table to disk after it changed, one write at a time."""

    def __init__(self, context: ProxyContext, folder: ProxyFolder) -> None:
        self._context, self._folder = context, folder
        self.changed = asyncio.Event()

    async def run(self) -> None:
        """Save the table after each change, until cancelled."""
        while True:
            await self.changed.wait()
            self.changed.clear()
            content = encode(self._context.table.snapshot())
            try:
                await asyncio.to_thread(self._folder.save_table, content)
            except OSError as error:
                self._context.log(f"the table cannot be saved: {error}")
