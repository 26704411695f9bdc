"""Joins this machine to a manager, keeps its identity, and renews its certificate."""

from __future__ import annotations

import asyncio
import http.client
import json
import platform
import socket
import ssl
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from websockets.exceptions import WebSocketException

from sokovan.adapters.local.atomic_file import write_whole
from sokovan.adapters.local.certificates import (
    FINGERPRINT_PREFIX,
    VALID_S,
    dialling,
    expires_ms,
    fingerprint,
    new_key,
    signing_request,
)
from sokovan.adapters.local.clock import SystemClock
from sokovan.agent.inventory import agent_name
from sokovan.agent.link.data_listener import DataSocket
from sokovan.agent.link.manager_addresses import ManagerAddresses
from sokovan.agent.link.manager_link import ManagerAddress, dialled
from sokovan.domain.cluster.agent_grant import JoinRefused
from sokovan.domain.errors import InvalidInput, SokovanError
from sokovan.domain.ids import checked_name
from sokovan.entrypoints.settings.listen_address import ListenAddress, own_address_toward, read_listen
from sokovan.entrypoints.web.listener import bound_listener
from sokovan.ports.environment import Clock
from sokovan.wire.api.system import DATA_PORT
from sokovan.wire.join_messages import (
    AUTHORITY_PATH,
    JOIN_PATH,
    MANAGER_NAME,
    RENEW_PATH,
    JoinDenied,
    JoinGranted,
    JoinRequest,
    decode_reply,
    encode_join,
)
from sokovan.wire.link_codec import MalformedFrame

KEY_FILE, CERTIFICATE_FILE, AUTHORITY_FILE, JOINED_FILE = "key.pem", "agent.pem", "authority.pem", "joined.json"
OPEN_S = 10.0
# The data listener has DATA_PORT, or one of those that follow.
PORTS_TRIED = 20
BACKLOG = 128
RETRY_S = 60.0
PEM_BYTES_MAX = 16_384
PRIVATE_FOLDER = 0o700


class ManagerUnreachable(SokovanError):
    """The manager to join does not answer, or is another one."""

    code = "manager-unreachable"
    hint = "check the URL and --ca, as `sokovan agent token` printed them, and that the port is open"


class DataPortTaken(SokovanError):
    """The address for gateways on other machines is in use, or not of this machine."""

    code = "data-port-taken"
    hint = "choose another address with --data-listen HOST:PORT, or stop the process that uses it"


class NotJoined(InvalidInput):
    """This machine has not joined a manager."""

    code = "not-joined"
    hint = "join it with the command that `sokovan agent token` prints on the manager"


@dataclass(frozen=True, slots=True)
class JoinedMachine:
    """The identity of a machine that has joined, in the private folder `folder`.

    `managers` are the URLs of all managers, that which it joined first. With `fixed` it keeps
    these, as where it reaches managers by other addresses than they announce.
    """

    folder: Path
    url: str
    agent_id: str
    scaling_group: str
    managers: tuple[str, ...] = ()
    fixed: bool = False

    @classmethod
    def load(cls, folder: Path) -> JoinedMachine:
        """The identity in a folder. Raises NotJoined."""
        try:
            found = json.loads((folder / JOINED_FILE).read_text(encoding="utf-8"))
            url, others = str(found["url"]), found.get("managers", ())
            managers = tuple(dict.fromkeys((url, *map(str, others))))
            fixed = found.get("fixed") is True
            return cls(folder, url, str(found["agent"]), str(found["scaling_group"]), managers, fixed)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise NotJoined(f"{folder} has no identity of a machine that has joined") from error

    def context(self) -> ssl.SSLContext:
        """The TLS context with its certificate. Raises NotJoined."""
        try:
            authority = (self.folder / AUTHORITY_FILE).read_text(encoding="ascii")
            return dialling(authority, self.folder / CERTIFICATE_FILE)
        except (OSError, ValueError) as error:
            raise NotJoined(f"{self.folder}: {error}") from error

    def addresses(self, context: ssl.SSLContext) -> ManagerAddresses:
        """The addresses of its managers, with its certificate; others may be announced."""

        def made(url: str) -> ManagerAddress:
            return ManagerAddress(url, "", tls=context, server_name=MANAGER_NAME)

        return ManagerAddresses(map(made, self.managers), None if self.fixed else made, joined=self.url)

    def own_address(self) -> str:
        """The address of this machine for others; empty if it joined by loopback."""
        return own_address_toward(urlsplit(self.url).hostname or "")

    def data_socket(self, listen: str = "") -> DataSocket | None:
        """The socket for gateways on other machines; None if it joined by loopback.

        `listen` is HOST:PORT; empty: the address toward its manager, and the first free port.
        Raises InvalidInput, DataPortTaken, NotJoined.
        """
        own = "" if listen else self.own_address()
        if not listen and not own:
            return None
        at = read_listen(listen) if listen else ListenAddress(own, DATA_PORT)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        try:
            context.load_cert_chain(self.folder / CERTIFICATE_FILE)
        except (OSError, ValueError) as error:
            raise NotJoined(f"{self.folder}: {error}") from error
        listener = bound(at.host, (at.port,) if listen else range(DATA_PORT, DATA_PORT + PORTS_TRIED))
        return DataSocket(listener, context, f"{at.advertised}:{listener.getsockname()[1]}")

    async def renew(self, context: ssl.SSLContext, *listening: ssl.SSLContext) -> None:
        """Get a new certificate for later connections, of the first manager that answers.

        Open connections continue. The list of managers is stored for the next start. Raises
        SokovanError.
        """
        key = (self.folder / KEY_FILE).read_bytes()
        granted = await self._renewed(context, key)
        store_certificate(self.folder, granted, key)
        if not self.fixed:
            store_joined(self.folder, self.url, self.agent_id, granted)
        for each in (context, *listening):
            each.load_cert_chain(self.folder / CERTIFICATE_FILE)

    async def _renewed(self, context: ssl.SSLContext, key: bytes) -> JoinGranted:
        # The list may have changed since the start.
        *others, last = JoinedMachine.load(self.folder).addresses(context)
        for address in others:
            with suppress(ManagerUnreachable):
                return await _exchange(address, RENEW_PATH, self.agent_id, key)
        return await _exchange(last, RENEW_PATH, self.agent_id, key)

    async def keep_renewed(
        self,
        context: ssl.SSLContext,
        log: Callable[[str], None],
        clock: Clock | None = None,
        *,
        listening: Sequence[ssl.SSLContext] = (),
    ) -> None:
        """Renew the certificate when a third of its time has passed; runs until cancelled."""
        clock = clock or SystemClock()
        while True:
            left_s = (expires_ms((self.folder / CERTIFICATE_FILE).read_bytes()) - clock.now_ms()) / 1000
            await clock.sleep(max(RETRY_S, left_s - VALID_S * 2 / 3))
            try:
                await self.renew(context, *listening)
                log("the certificate of this agent was renewed")
            except (SokovanError, OSError) as problem:
                log(f"the certificate of this agent was not renewed: {problem}; next try in {RETRY_S:g} s")


def bound(host: str, ports: Iterable[int]) -> socket.socket:
    """A socket bound to the first of these ports that is free. Raises DataPortTaken."""
    problem = "no port is free"
    for port in ports:
        try:
            return bound_listener(host, port, backlog=BACKLOG)
        except OSError as error:
            problem = error.strerror or str(error)
    raise DataPortTaken(f"cannot listen on {host} for gateways: {problem}")


def host_agent() -> str:
    """The default name of this machine's agent: that of the host."""
    return agent_name(platform.node())


async def join_machine(url: str, *, token: str, authority: str, agent_id: str, folder: Path) -> JoinedMachine:
    """Join a manager and store the identity.

    The token is sent after the manager has proved that it has the authority's certificate.
    Raises JoinRefused, ManagerUnreachable, InvalidInput.
    """
    checked_name(agent_id, what="agent")
    if not url.startswith("wss://") or not authority.startswith(FINGERPRINT_PREFIX):
        raise InvalidInput("give wss://HOST:PORT, and --ca sha256:...", hint="use the command of sokovan agent token")
    pem = await asyncio.to_thread(fetch_authority, url, authority)
    key = _stored_key(folder)
    address = ManagerAddress(url, "", tls=dialling(pem), server_name=MANAGER_NAME)
    granted = await _exchange(address, JOIN_PATH, agent_id, key, token=token)
    write_whole(folder / AUTHORITY_FILE, pem.encode())
    store_certificate(folder, granted, key)
    store_joined(folder, url, agent_id, granted)
    return JoinedMachine.load(folder)


def _stored_key(folder: Path) -> bytes:
    """The key of this machine, created once; the folder is private."""
    folder.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
    path = folder / KEY_FILE
    if not path.exists():
        write_whole(path, new_key())
    return path.read_bytes()


def store_certificate(folder: Path, granted: JoinGranted, key: bytes) -> None:
    """Store a certificate with its key in one file, so that both are replaced at once."""
    write_whole(folder / CERTIFICATE_FILE, granted.certificate.encode() + key)


def store_joined(folder: Path, url: str, agent_id: str, granted: JoinGranted) -> None:
    """Store the manager that was joined, and all others."""
    joined = {
        "url": url,
        "agent": agent_id,
        "scaling_group": granted.scaling_group,
        "managers": list(granted.managers),
    }
    write_whole(folder / JOINED_FILE, json.dumps(joined).encode())


def fetch_authority(url: str, expected: str) -> str:
    """The certificate of the manager's authority. Raises ManagerUnreachable.

    Read without a check of the connection, because its digest is what is checked.
    """
    parts = urlsplit(url)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=OPEN_S, context=context)
    try:
        connection.request("GET", AUTHORITY_PATH)
        pem = connection.getresponse().read(PEM_BYTES_MAX).decode("ascii")
        found = fingerprint(pem)
    except (OSError, http.client.HTTPException, ValueError, InvalidInput) as error:
        raise ManagerUnreachable(f"{url}: {error}") from error
    finally:
        connection.close()
    if found != expected.lower():
        raise ManagerUnreachable(f"{url} has the authority {found}, not {expected[:80]}; nothing was sent to it")
    return pem


async def _exchange(address: ManagerAddress, path: str, agent_id: str, key: bytes, *, token: str = "") -> JoinGranted:
    request = JoinRequest(agent_id, signing_request(key, agent_id), token)
    try:
        async with asyncio.timeout(OPEN_S), dialled(address, path) as socket:
            await socket.send(encode_join(request))
            reply = decode_reply(await socket.recv())
    except (OSError, TimeoutError, WebSocketException, MalformedFrame) as problem:
        raise ManagerUnreachable(f"{address.url}: {str(problem) or type(problem).__name__}") from problem
    if isinstance(reply, JoinDenied):
        raise JoinRefused(f"{reply.message} [{reply.code}]", hint=reply.hint)
    return reply
