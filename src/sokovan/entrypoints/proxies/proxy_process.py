"""`sokovan proxy`: builds and runs the proxy of this machine."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from sokovan.adapters.local.clock import SystemClock
from sokovan.adapters.local.random_source import number
from sokovan.adapters.process.ports.port_listeners import PortListeners
from sokovan.domain.errors import SokovanError
from sokovan.entrypoints.proxies.gateway_tls import GatewayCertificate, require_loopback
from sokovan.entrypoints.proxies.left_usage import hand_in_left_usage
from sokovan.entrypoints.proxies.listener_copies import ListenerCopies
from sokovan.entrypoints.proxies.proxy_folder import ProxyFolder, in_free_folder, load_table, lock_folder
from sokovan.entrypoints.proxies.proxy_workers import run_workers
from sokovan.entrypoints.settings.listen_address import is_this_machine
from sokovan.entrypoints.web.file_limits import raise_open_files
from sokovan.entrypoints.web.listener import bound_listener
from sokovan.entrypoints.web.tls_buffers import limit_tls_buffers
from sokovan.ports.environment import Clock
from sokovan.proxy.accounts.key_limits import KeyAccounts
from sokovan.proxy.accounts.key_verdicts import KeyVerdicts
from sokovan.proxy.context import ProxyContext
from sokovan.proxy.control.control_link import ControlLink
from sokovan.proxy.control.key_lookups import KeyLookups
from sokovan.proxy.control.manager_calls import ManagerCalls
from sokovan.proxy.endpoint_connections import Dialler
from sokovan.proxy.proxy_server import BACKLOG, ProxyServer
from sokovan.proxy.routing.choice import Draws
from sokovan.wire.serving.route_table import KeyEntry
from sokovan.wire.serving.serving_codec import encode

if TYPE_CHECKING:
    import httpx2

# Time that requests under way get when the proxy is stopped.
DRAIN_S = 30.0
WATCH_S = 5.0
# Objects after which the garbage collector looks for cycles.
GARBAGE_MIN = 20_000


class ProxyPortTaken(SokovanError):
    """The address of the gateway is in use, or not of this machine."""

    code = "proxy-port-taken"
    hint = "choose another address with --listen, or stop the process that uses it"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyOptions:
    """Options of a proxy.

    `managers` are URLs of APIs of one cluster; none: the table on disk is served and nothing reported.
    `root` is its folder; each of several `workers` has one of its own in it. `descriptor` is
    a listening socket of the parent process, instead of `host` and `port`. `authority` is the
    file with the certificate of the cluster's authority, for replicas on other machines.
    `certificate` and `key` are the files for TLS of the gateway; without them other machines
    reach it only if `unencrypted` allows it. `advertised` is the URL under which other programs
    reach the gateway; empty: that of its address. `worker` is the number of one of several processes,
    and `parent` the process that started it.
    """

    managers: tuple[str, ...]
    token: str = field(repr=False)
    root: Path
    host: str = "127.0.0.1"
    port: int = 0
    descriptor: int | None = None
    workers: int = 1
    authority: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    unencrypted: bool = False
    advertised: str = ""
    worker: int | None = None
    parent: int = 0

    @property
    def home(self) -> Path:
        """The folder of this process."""
        return self.root if self.worker is None else self.root / f"worker-{self.worker}"


def listening_socket(host: str, port: int) -> socket.socket:
    """A bound socket. Raises ProxyPortTaken."""
    try:
        return bound_listener(host, port)
    except OSError as error:
        raise ProxyPortTaken(f"cannot listen on {host}:{port}: {error.strerror or error}") from error


def run_proxy(options: ProxyOptions, log: Callable[[str], None]) -> int:
    """Run a proxy until SIGINT or SIGTERM.

    Raises ProxyPortTaken, GatewayUnencrypted, GatewayCertificateUnusable.
    """
    raise_open_files()
    limit_tls_buffers()
    certificate = _certificate(options)
    with contextlib.closing(_listener(options)) as listener:
        if certificate is None and not options.unencrypted:
            require_loopback(listener)
        if options.workers == 1:
            return _run(options, listener, log)
        lock = lock_folder(options.root) if options.descriptor is None else in_free_folder(options.root, lock_folder)
        parent = os.getpid()

        def work(worker: int) -> int:
            os.close(lock)  # it is the parent's: it ends with that
            return _run(replace(options, worker=worker, parent=parent), listener, log)

        # Connections wait here from now on, whichever process takes them.
        listener.listen(BACKLOG)
        try:
            return run_workers(options.workers, work, log=log, stopping=listener.close)
        finally:
            os.close(lock)


def _listener(options: ProxyOptions) -> socket.socket:
    if options.descriptor is None:
        return listening_socket(options.host, options.port)
    # A copy: each process closes its own.
    return socket.socket(fileno=os.dup(options.descriptor))


def _certificate(options: ProxyOptions) -> GatewayCertificate | None:
    return None if options.certificate is None else GatewayCertificate(options.certificate, options.key)


def _run(options: ProxyOptions, listener: socket.socket, log: Callable[[str], None]) -> int:
    # Loaded modules stay, and a request leaves no cycle of references: there is little to collect.
    gc.freeze()
    gc.set_threshold(GARBAGE_MIN)
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
    clock, log = SystemClock(), _lossy(log)
    folder, listeners = _folder(options), PortListeners()
    context = ProxyContext(
        loop=loop,
        wall_ms=clock.now_ms,
        draws=Draws(number()),
        ledger=folder.ledger,
        log=log,
        accounts=KeyAccounts(workers=options.workers),
        verdicts=KeyVerdicts(has_manager=bool(options.managers)),
        listeners=listeners.at,
        dialler=await asyncio.to_thread(_dialler, options),
        url=options.advertised or _reached_at(listener, encrypted=options.certificate is not None),
    )
    saver = TableSaver(context, folder)
    server = ProxyServer(context, clock=clock, changed=saver.changed.set)
    load_table(options.root, server, log)
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(server.run()), tasks.create_task(saver.run())]
        running.append(tasks.create_task(_watch(folder, options, clock, stopped)))
        if options.managers:
            manager = _Manager(context, options, clock)

            def linked(calls: ManagerCalls) -> ControlLink:
                return ControlLink(
                    context, calls, folder.identity, clock=clock, apply=server.apply, save_usage=folder.save_usage
                )

            running.append(tasks.create_task(manager.follow(linked)))
        copies = ListenerCopies(folder.root, listener) if options.descriptor is not None else None
        certificate = _certificate(options)
        if certificate is not None:
            running.append(tasks.create_task(certificate.follow(clock, log)))
        tls = None if certificate is None else certificate.context
        await server.listen(listener, tls=tls)
        log(f"the gateway is ready at {_url(listener, encrypted=tls is not None)}")
        await stopped.wait()
        if copies is not None:
            copies.close()
        await server.drain(DRAIN_S)
        for task in running:
            task.cancel()
    context.ledger.close()
    if folder.exists:
        folder.save_usage()
    folder.close()
    listeners.close()


def _url(listener: socket.socket, *, encrypted: bool) -> str:
    host, port = listener.getsockname()[:2]
    return f"{'https' if encrypted else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"


def _reached_at(listener: socket.socket, *, encrypted: bool) -> str:
    """The URL for other programs; a socket of all addresses does not say which one they can reach."""
    host = ip_address(listener.getsockname()[0].partition("%")[0])
    return "" if host.is_unspecified else _url(listener, encrypted=encrypted)


class _Manager:
    """The link to the manager, which is made while the proxy serves already.

    The client takes longer to load than the rest of the proxy; questions about keys wait for it.
    """

    def __init__(self, context: ProxyContext, options: ProxyOptions, clock: Clock) -> None:
        self._options, self._clock, self._log = options, clock, context.log
        self._link: asyncio.Future[ControlLink] = context.loop.create_future()
        context.ask_key = KeyLookups(context, self._key).ask

    async def follow(self, linked: Callable[[ManagerCalls], ControlLink]) -> None:
        """Load the client, then keep table and reports going until cancelled."""
        async with contextlib.AsyncExitStack() as stack:
            clients = await asyncio.to_thread(_clients, self._options)
            for client in clients:
                await stack.enter_async_context(client)
            tasks = await stack.enter_async_context(asyncio.TaskGroup())
            link = linked(ManagerCalls(clients, self._log))
            self._link.set_result(link)
            tasks.create_task(link.follow_table())
            tasks.create_task(link.send_reports())
            tasks.create_task(hand_in_left_usage(self._options.root, link, self._clock))

    async def _key(self, secret: bytes) -> KeyEntry | None:
        return await (await asyncio.shield(self._link)).key(secret)


def _dialler(options: ProxyOptions) -> Dialler:
    """Dials endpoints on the manager's machine if it is this one, and with the authority's certificate on others.

    Of several managers all must be here: an endpoint does not say whose machine it is on.
    """
    authority = options.authority
    hosts = [urlsplit(url).hostname for url in options.managers]
    near = all(host is None or is_this_machine(host) for host in hosts)
    if authority is None:
        return Dialler(near=near)
    return Dialler(lambda: authority.read_text(encoding="ascii", errors="replace"), near=near)


def _lossy(log: Callable[[str], None]) -> Callable[[str], None]:
    """A log that loses lines without a reader: the server that read them may have been killed."""

    def tried(line: str) -> None:
        with contextlib.suppress(OSError):
            log(line)

    return tried


async def _watch(folder: ProxyFolder, options: ProxyOptions, clock: Clock, stopped: asyncio.Event) -> None:
    """Stop a proxy whose folder was removed, or whose parent was killed: no other asks it to end."""
    while folder.exists and (options.worker is None or os.getppid() == options.parent):
        await clock.sleep(WATCH_S)
    stopped.set()


def _folder(options: ProxyOptions) -> ProxyFolder:
    """The folder of this process. Raises ProxyFolderInUse.

    One that a parent process starts takes another while the process before it drains.
    """
    if options.descriptor is None and options.worker is None:
        return ProxyFolder(options.home)
    return in_free_folder(options.home, ProxyFolder)


def _clients(options: ProxyOptions) -> list[httpx2.AsyncClient]:
    """A client of each manager; an https one is trusted by the cluster's authority, if that is given."""
    import httpx2  # noqa: PLC0415  # in a thread: it takes a while

    verify: bool | ssl.SSLContext = True
    if options.authority is not None and any(url.startswith("https:") for url in options.managers):
        verify = ssl.create_default_context(cafile=options.authority)
    headers = {"authorization": f"Bearer {options.token}"}
    return [
        httpx2.AsyncClient(base_url=url, headers=headers, trust_env=False, verify=verify) for url in options.managers
    ]


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
