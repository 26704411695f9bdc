"""Tokens are redeemed once and in time; certificates are renewed for the same key only."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from sokovan.adapters.agentlink.machine_listener import CERTIFIED
from sokovan.adapters.local.certificates import CertificateAuthority, new_key, signing_request
from sokovan.domain.cluster.agent_claims import AgentClaims, claims_in
from sokovan.domain.cluster.agent_grant import AgentGrant, JoinToken, join_digest
from sokovan.domain.slots import ResourceSlot
from sokovan.entrypoints.joining.enrolment import LINK_LABEL, Enrolment
from sokovan.testing.clock import VirtualClock
from sokovan.testing.stored_cluster import StoredCluster
from sokovan.wire.frames import DeviceEntry, Hello, HelloRefused, Welcome
from sokovan.wire.join_messages import JoinDenied, JoinGranted, JoinReply, JoinRequest

NAME, SECRET = "t", "s"
TOKEN = f"{NAME}.{SECRET}"
pytestmark = pytest.mark.slow


class Office:
    """An enrolment with a token of the secret `s`."""

    def __init__(self, cluster: StoredCluster, folder: Path, clock: VirtualClock) -> None:
        self.cluster, self.clock, self.key = cluster, clock, new_key()
        # The claims of the agent that was admitted last.
        self.claimed: list[str] = []
        self.enrolment = Enrolment(
            cluster.store,
            CertificateAuthority(folder / "tls", clock),
            clock,
            lambda _line: None,
            managers=("wss://10.0.0.1:7649", "wss://10.0.0.2:7649"),
        )

    @classmethod
    @asynccontextmanager
    async def open(cls, folder: Path) -> AsyncIterator[Office]:
        clock = VirtualClock()
        async with StoredCluster.open(clock=clock) as cluster:
            made = cls(cluster, folder, clock)
            await made.token("t")
            yield made

    async def token(self, name: str) -> None:
        expires_ms = self.clock.now_ms() + 60_000
        slots = ResourceSlot({"cpu": 1000})
        token = JoinToken(name=name, digest=join_digest("s"), slots=slots, labels={"rack": "r1"}, expires_ms=expires_ms)
        await self.cluster.put(token)

    async def join(self, agent: str = "a", token: str = TOKEN, key: bytes = b"", renewing: str = "") -> JoinReply:
        request = JoinRequest(agent, signing_request(key or self.key, agent), token)
        return await self.enrolment.join(request, "10.0.0.2", renewing)

    async def denials(self) -> list[str]:
        page = await self.cluster.store.read(lambda unit: unit.audit.page(limit=100))
        return [entry.detail["code"] for _number, _ms, entry in page if entry.outcome == "denied"]

    async def admitted(self, *, key: bytes = b"", **changes: object) -> Welcome | HelloRefused:
        async def admit(hello: Hello, given: str) -> Welcome | HelloRefused:
            assert (given, hello.labels[LINK_LABEL]) == ("the-token", "certificate")
            self.claimed = claims_in(hello.labels).texts()
            return Welcome(incarnation=1, heartbeat_s=1)

        given: dict[str, object] = {"agent_id": "a", "software": "test", "slots": {"cpu": 1000}, **changes}
        hello = Hello(**given)  # type: ignore[arg-type]  # a test names the few fields that matter to it
        return await self.enrolment.admission(admit, "the-token")(hello, f"{CERTIFIED}a {digest_of(key or self.key)}")


def digest_of(key_pem: bytes) -> str:
    """The digest of the public key of a private one."""
    public = load_pem_private_key(key_pem, password=None).public_key()
    return hashlib.sha256(public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


async def test_a_token_is_redeemed_once_and_not_after_its_time(tmp_path: Path) -> None:
    async with Office.open(tmp_path) as office:
        assert isinstance(await office.join(token=TOKEN + "x"), JoinDenied)
        assert isinstance(await office.join(), JoinGranted)
        assert isinstance(await office.join(), JoinDenied)
        await office.token("late")
        await office.clock.advance(60)
        assert isinstance(await office.join("b", "late.s"), JoinDenied)
        assert await office.denials() == ["join-refused"] * 3


async def test_the_name_of_another_machine_is_refused_and_its_own_is_not(tmp_path: Path) -> None:
    async with Office.open(tmp_path) as office:
        await office.join()
        await office.token("t")
        assert isinstance(await office.join(key=new_key()), JoinDenied)
        assert isinstance(await office.join(), JoinGranted)
        await office.token("t")
        await office.cluster.agent("local", devices=False)
        assert isinstance(await office.join("local"), JoinDenied)


async def test_a_certificate_is_renewed_for_its_agent_and_its_key_only(tmp_path: Path) -> None:
    async with Office.open(tmp_path) as office:
        await office.join()
        assert isinstance(await office.join(token="", renewing="a"), JoinGranted)
        assert isinstance(await office.join(token="", renewing="a", key=new_key()), JoinDenied)
        assert isinstance(await office.join("b", token="", renewing="a"), JoinDenied)
        await office.cluster.store.run(lambda unit: unit.catalog.remove(AgentGrant, "a"))
        assert isinstance(await office.join(token="", renewing="a"), JoinDenied)


async def test_a_certificate_is_granted_until_it_is_revoked_and_for_its_key_only(tmp_path: Path) -> None:
    async with Office.open(tmp_path) as office:
        await office.join()
        credential = f"{CERTIFIED}a {digest_of(office.key)}"
        assert await office.enrolment.granted(credential)
        assert not await office.enrolment.granted(f"{CERTIFIED}a {digest_of(new_key())}")
        await office.cluster.store.run(lambda unit: unit.catalog.remove(AgentGrant, "a"))
        assert not await office.enrolment.granted(credential)
        assert await office.denials() == ["agent-revoked"] * 2


async def test_an_agent_is_admitted_as_its_certificate_and_its_grant_say(tmp_path: Path) -> None:
    async with Office.open(tmp_path) as office:
        await office.join()
        welcome = await office.admitted()
        assert isinstance(welcome, Welcome)
        assert welcome.managers == ("wss://10.0.0.1:7649", "wss://10.0.0.2:7649")
        for wrong, code in (
            ({"agent_id": "b"}, "certificate-mismatch"),
            ({"scaling_group": "other"}, "claim-refused"),
            ({"labels": {f"l{number}": "x" for number in range(40)}}, "claim-refused"),
        ):
            refused = await office.admitted(**wrong)
            assert isinstance(refused, HelloRefused)
            assert refused.code == code
        # The certificate of a machine that was removed, when another one has joined under its name.
        refused = await office.admitted(key=new_key())
        assert isinstance(refused, HelloRefused)
        assert refused.code == "agent-revoked"
        await office.cluster.store.run(lambda unit: unit.catalog.remove(AgentGrant, "a"))
        refused = await office.admitted()
        assert isinstance(refused, HelloRefused)
        assert refused.code == "agent-revoked"


async def test_claims_beyond_the_grant_are_admitted_and_marked(tmp_path: Path) -> None:
    async with Office.open(tmp_path) as office:
        await office.join()
        cases: list[tuple[dict[str, object], list[str]]] = [
            ({"labels": {"rack": "r1"}}, []),
            ({"labels": {"rack": "r2"}}, ["label rack=r2"]),
            ({"slots": {"cpu": 1001}}, ["slot cpu=1.001"]),
            ({"devices": (DeviceEntry("d", "cpu", 1001),)}, ["slot cpu=1.001"]),
            # What an agent says of its own claims does not count.
            ({"labels": AgentClaims(labels={"zone": "z"}).marks()}, []),
        ]
        for reported, claimed in cases:
            assert isinstance(await office.admitted(**reported), Welcome)  # type: ignore[arg-type]  # as in `admitted`
            assert office.claimed == claimed
        assert await office.denials() == ["claim-unapproved"] * 3


async def test_a_used_token_has_the_agent_that_used_it(tmp_path: Path) -> None:
    async with Office.open(tmp_path) as office:
        await office.join()
        token = await office.cluster.store.read(lambda unit: unit.catalog.get(JoinToken, NAME))
        grant = await office.cluster.store.read(lambda unit: unit.catalog.get(AgentGrant, "a"))
        assert (token.used_by, grant.token, grant.labels) == ("a", NAME, {"rack": "r1"})


async def test_a_certificate_that_is_revoked_elsewhere_is_found(tmp_path: Path) -> None:
    async with Office.open(tmp_path) as office:
        await office.join()
        await office.admitted()
        assert await office.enrolment.revoked(lambda _agent: True) == []
        await office.cluster.store.run(lambda unit: unit.catalog.remove(AgentGrant, "a"))
        assert await office.enrolment.revoked(lambda _agent: True) == ["a"]
        assert await office.enrolment.revoked(lambda _agent: False) == []
