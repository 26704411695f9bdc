"""A second machine joins a server over TLS: its own folders and processes on another address."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import sqlite3
import ssl
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import httpx2
import pytest
from websockets.exceptions import WebSocketException

from sokovan.adapters.local.certificates import CertificateAuthority, dialling, new_key, signing_request
from sokovan.adapters.local.clock import SystemClock
from sokovan.agent.link.manager_link import ManagerAddress, dialled
from sokovan.agent.link.upload_stream import UploadReceiver, UploadUnavailable
from sokovan.domain.owners.uploads import upload_reference
from sokovan.entrypoints.joining.joined_agent import JoinedMachine
from sokovan.wire.frames import LINK_PATH, Hello, HelloRefused
from sokovan.wire.join_messages import MANAGER_NAME
from sokovan.wire.link_codec import decode, encode
from tests.acceptance.cluster import free_port
from tests.acceptance.embedded import Embedded, sokovan_in, until
from tests.acceptance.endings import ended_well
from tests.acceptance.machines import LITTLE, join_words, link, machine

READY = re.compile(r"the gateway is ready at (\S+)")


def denials(server: Embedded) -> list[tuple[str, str]]:
    """The refusals in the audit log: target and code."""
    with closing(sqlite3.connect(f"file:{server.data / 'state.db'}?mode=ro", uri=True)) as store:
        rows = store.execute("SELECT entry FROM audit_log ORDER BY sequence").fetchall()
    entries = [json.loads(row[0]) for row in rows]
    return [(one["target"], one["detail"].get("code", "")) for one in entries if one["outcome"] == "denied"]


async def refused_as(url: str, context: ssl.SSLContext, agent_id: str) -> str:
    """The code of the refusal of an agent that names itself `agent_id`."""
    address = ManagerAddress(url, "", tls=context, server_name=MANAGER_NAME)
    async with dialled(address, LINK_PATH) as socket:
        await socket.send(encode(Hello(agent_id=agent_id, software="test", slots={"cpu": 1000})))
        answer = decode(await socket.recv(decode=False))
    assert isinstance(answer, HelloRefused), answer
    return answer.code


async def reached(url: str, context: ssl.SSLContext) -> bool:
    """Whether a client with this certificate gets a connection at all."""
    try:
        async with dialled(ManagerAddress(url, "", tls=context, server_name=MANAGER_NAME), LINK_PATH):
            return True
    except (OSError, WebSocketException):
        return False


async def fetched(joined: JoinedMachine, upload: str) -> list[object]:
    """The parts of an upload, as an agent fetches them."""
    receiver = UploadReceiver(joined.addresses(joined.context()))
    return [part async for part in receiver.parts(upload)]


def test_a_second_machine_joins_runs_a_session_returns_and_is_removed(tmp_path: Path) -> None:
    server = Embedded(tmp_path / "manager")
    with machine(tmp_path / "second") as second, machine(tmp_path / "third") as third, ended_well(server):
        server.start("--no-agent", "--listen", "127.0.0.2:0")
        words = join_words(server)
        second.run(*words, "--name", "second")
        until(lambda: link(server, "second") == (True, "alive"), what="it is linked", tell=lambda: second.said)
        done = server.cli("run", "-n", "there", *LITTLE, "--", "echo", "hello")
        assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr
        assert "sokovan.link=certificate" in server.cli("agent", "show", "second").stdout
        assert {oct(path.stat().st_mode & 0o777) for path in second.joined.iterdir()} == {"0o600"}

        # The token works once; another machine does not get the name of this one.
        again = third.cli(*words, "--name", "third")
        assert (again.returncode != 0, "used already" in again.stderr) == (True, True), again.stderr
        taken = third.cli(*join_words(server), "--name", "second")
        assert "another machine is or was agent second" in taken.stderr, taken.stderr
        other = third.cli(*words[:-1], "sha256:" + "0" * 64)
        assert "nothing was sent to it" in other.stderr, other.stderr

        # Its certificate is that of one agent; one of another authority is none.
        joined = JoinedMachine.load(second.joined)
        context = joined.context()
        assert asyncio.run(refused_as(joined.url, context, "third")) == "certificate-mismatch"
        assert not asyncio.run(reached(joined.url, foreign_context(tmp_path / "foreign", second.joined)))
        refused = [("third", "join-refused"), ("second", "join-refused"), ("third", "certificate-mismatch")]
        until(lambda: ("unknown", "foreign-certificate") in denials(server), what="the foreign certificate is audited")
        assert set(refused) <= set(denials(server)), denials(server)

        # A renewed certificate is used by new connections; the link stays.
        before = server.api("GET", "/agents/second").json()["incarnation"]
        asyncio.run(joined.renew(context))
        assert asyncio.run(refused_as(joined.url, joined.context(), "third")) == "certificate-mismatch"
        assert link(server, "second") == (True, "alive")
        assert server.api("GET", "/agents/second").json()["incarnation"] == before

        second.halt()
        second.run("agent", "run")
        until(lambda: link(server, "second") == (True, "alive"), what="it is back", tell=lambda: second.said)
        assert server.cli("run", *LITTLE, "--", "echo", "again").stdout == "again\n"

        # It fetches uploads while it is granted.
        (tmp_path / "work").mkdir()
        (tmp_path / "work" / "note").write_text("sent")
        sent = sokovan_in(tmp_path / "work", server, "run", "-n", "sent", *LITTLE, "--upload", "--", "cat", "note")
        assert (sent.returncode, sent.stdout) == (0, "sent"), sent.stderr
        upload = upload_reference("admin", server.session("sent")["upload"])
        assert b"sent" in asyncio.run(fetched(joined, upload))

        removed = server.cli("agent", "remove", "second", "--yes")
        assert removed.returncode == 0, removed.stderr
        until(lambda: link(server, "second") == (False, "draining"), what="its link is closed")
        assert asyncio.run(refused_as(joined.url, joined.context(), "second")) == "agent-revoked"
        until(lambda: ("second", "agent-revoked") in denials(server), what="the refusal is audited")
        with pytest.raises(UploadUnavailable, match="the certificate of this agent was revoked"):
            asyncio.run(fetched(joined, upload))


def claims_of(server: Embedded, name: str) -> list[str]:
    """What an agent claims beyond its grant."""
    claims: list[str] = server.cli_json("agent", "show", name)["unapproved"]
    return claims


def test_what_an_agent_claims_beyond_its_token_waits_for_an_approval(tmp_path: Path) -> None:
    server = Embedded(tmp_path / "manager")
    with machine(tmp_path / "second") as second, ended_well(server):
        server.start("--no-agent", "--listen", "127.0.0.2:0")
        words = join_words(server, "--slots", "cpu=0.5,mem=1Mi", "--label", "rack=r01")
        assert words[-2:] == ["--label", "rack=r01"]
        [token] = server.cli_json("agent", "tokens")
        assert (token["labels"], token["created_by"], token["slots"]["cpu"]) == ({"rack": "r01"}, "admin", 500)
        second.run(*words, "--label", "zone=z9", "--name", "second")
        until(lambda: link(server, "second") == (True, "alive"), what="it is linked", tell=lambda: second.said)
        assert server.cli_json("agent", "tokens") == []
        assert [one["used_by"] for one in server.cli_json("agent", "tokens", "--all")] == ["second"]

        # It is listed with what it claims, and gets nothing: not even what its token grants.
        assert "UNAPPROVED" in server.cli("agent", "ls").stdout
        assert [text.split("=")[0] for text in claims_of(server, "second")] == ["slot cpu", "slot mem", "label zone"]
        server.cli("run", "--detach", "-n", "waits", "--cpus", "0.1", "--mem", "64MiB", "--", "echo", "hello")
        until(lambda: "not approved yet" in server.cli("why", "waits").stdout, what="why says so")
        assert ("second", "claim-unapproved") in denials(server)
        assert "sokovan.claim" not in server.cli("agent", "show", "second").stdout

        approved = server.cli("agent", "approve", "second", "--yes")
        assert (approved.returncode, "approved: slot cpu" in approved.stderr) == (0, True), approved.stderr
        assert server.settles("waits")["result"] == "success"
        again = server.cli("agent", "approve", "second", "--yes")
        assert (again.returncode != 0, "claims nothing" in again.stderr) == (True, True), again.stderr

        # A new process claims the same, which was granted, and one thing more.
        second.halt()
        second.run("agent", "run", "--label", "rack=r01", "--label", "zone=z9", "--label", "disk=nvme")
        until(lambda: claims_of(server, "second") == ["label disk=nvme"], what="it waits", tell=lambda: second.said)
        refused = server.cli("agent", "remove", "second", "--yes")
        assert refused.returncode == 0, refused.stderr
        until(lambda: not link(server, "second")[0], what="its link is closed")


def test_a_token_that_was_revoked_admits_no_machine(tmp_path: Path) -> None:
    server = Embedded(tmp_path / "manager")
    with machine(tmp_path / "second") as second, ended_well(server):
        server.start("--no-agent", "--listen", "127.0.0.2:0")
        for wrong in (("--label", "rack"), ("--label", "sokovan.link=x"), ("--slots", "cpu=-1"), ("--expires", "0s")):
            made = server.cli("agent", "token", *wrong)
            assert (made.returncode != 0, made.stdout) == (True, ""), wrong
        words = join_words(server)
        [token] = server.cli_json("agent", "tokens")
        assert server.cli("agent", "revoke-token", token["name"], "--yes").returncode == 0
        refused = second.cli(*words, "--name", "second")
        assert (refused.returncode != 0, "revoked" in refused.stderr) == (True, True), refused.stderr
        unknown = server.cli("agent", "revoke-token", token["name"], "--yes")
        assert (unknown.returncode != 0, token["name"] in unknown.stderr) == (True, True), unknown.stderr
        assert server.cli("agent", "approve", "second", "--yes").returncode != 0


@contextmanager
def proxy(server: Embedded, manager: str) -> Iterator[str]:
    """A proxy of its own that trusts the server's authority; its URL."""
    file, trust = server.folder / "proxy.out", ("--ca", str(server.data / "tls" / "authority.pem"))
    words = ("--token-file", str(server.data / "proxy-token"), "--root", str(server.folder / "proxy"), *trust)
    with file.open("wb") as output:
        process = server.started(output, "proxy", manager, "--listen", "127.0.0.1:0", *words)
    try:
        said = until(lambda: READY.search(file.read_text(encoding="utf-8")), what="the proxy is ready")
        yield f"{said[1]}/v1"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)


def is_served(url: str, key: str, model: str) -> bool:
    """Whether a model answers at a gateway."""
    question = {"model": model, "messages": [{"role": "user", "content": "hello"}]}
    headers = {"authorization": f"Bearer {key}"}
    answer = httpx2.post(f"{url}/chat/completions", json=question, headers=headers, timeout=60, trust_env=False)
    return answer.is_success


def test_a_model_is_served_through_the_data_listener_of_its_agent_on_any_machine(tmp_path: Path) -> None:
    server = Embedded(tmp_path / "manager")
    api = f"127.0.0.5:{free_port('127.0.0.5')}"
    with machine(tmp_path / "second") as second, ended_well(server):
        addresses = ("--set", "agent.data_listen=127.0.0.4:0", "--set", f"api.listen={api}")
        server.start("--listen", "127.0.0.2:0", "--name", "first", *addresses)
        told = server.cli_json("serve", "toy", "--name", "near", *LITTLE)
        with proxy(server, f"https://{api}") as another:
            for url in (told["url"], another):
                until(partial(is_served, url, told["key"], "near"), what=f"it is served by {url}")
        assert "sokovan.data=127.0.0.4:" in server.cli("agent", "show", "first").stdout
        assert server.cli("agent", "drain", "first").returncode == 0
        server.cli("deployment", "rm", "near", "--yes")
        second.run(*join_words(server), "--name", "second", "--data-listen", "127.0.0.3:0")
        until(lambda: link(server, "second") == (True, "alive"), what="it is linked", tell=lambda: second.said)
        told = server.cli_json("serve", "toy", "--name", "far", *LITTLE)
        with httpx2.Client(base_url=told["url"], headers={"authorization": f"Bearer {told['key']}"}) as client:
            question = {"model": "far", "messages": [{"role": "user", "content": "hello"}]}
            answer = client.post("/chat/completions", json=question, timeout=60)
            assert answer.status_code == 200, answer.text
            # The agent lets nobody through whose ticket it cannot check: the proxy asks again with its next one.
            second.halt()
            second.run("agent", "run", "--data-listen", "127.0.0.3:0")
            until(
                lambda: client.post("/chat/completions", json=question, timeout=60).status_code == 200,
                what="it is served again",
                tell=lambda: second.said,
            )
        shown = server.cli("agent", "show", "second").stdout
        assert "sokovan.data=127.0.0.3:" in shown, shown
        server.cli("deployment", "rm", "far", "--yes")
        until(lambda: not server.cli_json("deployment", "ls"), limit_s=240, what="the deployment has ended")


def test_a_server_without_a_listener_creates_no_join_token(tmp_path: Path) -> None:
    server = Embedded(tmp_path / "manager")
    with ended_well(server):
        server.start("--no-agent")
        made = server.cli("agent", "token")
        assert (made.returncode != 0, "sokovan up --listen HOST:PORT" in made.stderr) == (True, True), made.stderr
        assert not (server.data / "tls").exists()


def test_an_address_that_is_in_use_is_named_and_the_server_does_not_start(tmp_path: Path) -> None:
    server = Embedded(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        at = f"127.0.0.1:{taken.getsockname()[1]}"
        done = server.cli("up", "--data", str(server.data), "--port", "0", "--no-agent", "--listen", at)
    assert done.returncode != 0
    assert f"cannot listen on {at} for other machines: Address already in use" in done.stderr, done.stderr
    assert "machine-port-taken" in done.stderr


def foreign_context(authority: Path, joined: Path) -> ssl.SSLContext:
    """A client that trusts the manager, with a certificate of another authority."""
    key = new_key()
    certificate, _digest = CertificateAuthority(authority, SystemClock()).issue(
        signing_request(key, "second"), "second"
    )
    identity = authority / "agent.pem"
    identity.write_bytes(certificate.encode() + key)
    return dialling((joined / "authority.pem").read_text(encoding="ascii"), identity)
