"""Issues certificates to machines that join, and admits their agents.

Refusals are audited, at a limited rate: anyone who reaches the listener can cause them.
"""

from __future__ import annotations

import dataclasses
import hmac
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from msgspec.structs import replace

from sokovan.adapters.agentlink.machine_listener import CERTIFIED, certified_name
from sokovan.adapters.local.certificates import CertificateAuthority
from sokovan.api.access.auditing import ANONYMOUS, DENIED, DENIED_PER_MINUTE, DONE, shown
from sokovan.api.access.request_limits import Buckets
from sokovan.domain.cluster.agent_claims import AgentClaims, without_claims
from sokovan.domain.cluster.agent_grant import AgentGrant, JoinRefused, JoinToken, join_digest
from sokovan.domain.errors import InvalidInput, ObjectNotFound, SokovanError
from sokovan.domain.ids import AgentId, checked_name, is_name
from sokovan.domain.slots import ResourceSlot
from sokovan.ports.environment import Clock
from sokovan.ports.repositories.audit import AuditEntry
from sokovan.ports.storage import Store, UnitOfWork
from sokovan.wire.frames import MANAGERS_MAX, Hello, HelloRefused, Welcome
from sokovan.wire.join_messages import JoinDenied, JoinGranted, JoinReply, JoinRequest

# The label that shows how an agent is linked.
LINK_LABEL = "sokovan.link"
MISMATCH, REVOKED, FOREIGN = "certificate-mismatch", "agent-revoked", "foreign-certificate"
# A claim that waits for an approval.
UNAPPROVED = "claim-unapproved"
GRANTS_AT_ONCE = 500
_INVALID = "the join token is unknown, revoked, expired, or was used already"

Admit = Callable[[Hello, str], Awaitable[Welcome | HelloRefused]]


class Enrolment:
    """Redeems join tokens, renews certificates, and admits agents with a certificate."""

    def __init__(
        self,
        store: Store,
        authority: CertificateAuthority,
        clock: Clock,
        log: Callable[[str], None],
        *,
        managers: tuple[str, ...] = (),
    ) -> None:
        self._store, self._authority, self._log, self._managers = store, authority, log, managers
        # Agents that were admitted with a certificate.
        self._certified: set[AgentId] = set()
        self._entries = Buckets(clock, per_s=DENIED_PER_MINUTE / 60, burst=DENIED_PER_MINUTE)

    async def join(self, request: JoinRequest, address: str, renewing: str) -> JoinReply:
        """Answer a machine that joins, or an agent that renews its certificate."""
        try:
            agent_id = checked_name(request.agent_id, what="agent")
            if renewing and renewing != agent_id:
                raise JoinRefused(f"the certificate is that of agent {renewing}, the request that of {agent_id}")
            certificate, key = self._authority.issue(request.request, agent_id)
            redeem = self._renewed if renewing else self._redeemed
            grant = await self._store.run(lambda unit: redeem(unit, request, key, address))
        except InvalidInput as refused:
            await self.denied("agent.join", request.agent_id, refused.code, address=address)
            return JoinDenied(refused.code, refused.message[:500], refused.hint[:500])
        except SokovanError as problem:
            self._log(f"agent {request.agent_id} could not join: {problem!r}")
            return JoinDenied("unavailable", "the manager cannot admit machines now", "try again later")
        return JoinGranted(certificate, grant.scaling_group, self._managers)

    def admission(self, admit: Admit, token: str) -> Admit:
        """Extends `admit`: an agent with a certificate is admitted like one with `token`."""

        async def admit_certified(hello: Hello, given: str) -> Welcome | HelloRefused:
            if not given.startswith(CERTIFIED):
                return await admit(hello, given)
            hello = replace(hello, labels=without_claims(hello.labels))
            claims = await self._claims(hello, *certified_name(given))
            if isinstance(claims, HelloRefused):
                await self.denied("agent.link", hello.agent_id, claims.code, certificate=given)
                return claims
            if claims:
                await self.denied("agent.claim", hello.agent_id, UNAPPROVED, claims=str(claims))
            self._certified.add(AgentId(hello.agent_id))
            labels = {**hello.labels, LINK_LABEL: "certificate", **claims.marks()}
            verdict = await admit(replace(hello, labels=labels), token)
            announced = self._managers[:MANAGERS_MAX]
            return replace(verdict, managers=announced) if isinstance(verdict, Welcome) else verdict

        return admit_certified

    async def granted(self, credential: str) -> bool:
        """Whether a certificate may still be used. Raises StoreUnavailable."""
        agent_id, key = certified_name(credential)
        grant = await self._store.read(lambda unit: _grant(unit, agent_id))
        if grant is not None and grant.key == key:
            return True
        await self.denied("agent.link", agent_id, REVOKED, certificate=credential)
        return False

    async def revoked(self, connected: Callable[[AgentId], bool]) -> list[AgentId]:
        """Connected agents whose certificate was revoked. Raises StoreUnavailable."""
        found: list[AgentId] = []
        agents = sorted(filter(connected, self._certified))
        for first in range(0, len(agents), GRANTS_AT_ONCE):
            some = agents[first : first + GRANTS_AT_ONCE]
            grants = await self._store.read(partial(_grants, some))
            found += [agent_id for agent_id, grant in zip(some, grants, strict=True) if grant is None]
        return found

    async def denied(self, action: str, target: str, code: str, **detail: str) -> None:
        """Record a refusal; beyond the limit it is logged only."""
        self._log(f"{action} of {shown(target)} was refused: {code}")
        if self._entries.take(action):
            return
        details = {name: shown(text) for name, text in {"code": code, **detail}.items()}
        entry = AuditEntry(who=ANONYMOUS, action=action, target=shown(target), outcome=DENIED, detail=details)
        try:
            await self._store.run(lambda unit: unit.audit.append(entry))
        except SokovanError as problem:  # the answer does not depend on it
            self._log(f"a refusal could not be recorded: {problem!r}")

    async def _claims(self, hello: Hello, agent_id: str, key: str) -> AgentClaims | HelloRefused:
        """The claims of an agent with the certificate of `agent_id` and this key.

        Or the reason for refusing it.
        """
        if hello.agent_id != agent_id:
            message = f"the certificate is that of agent {agent_id}, not of {hello.agent_id}"
            return HelloRefused(code=MISMATCH, message=message, final=True)
        # Many agents may link at once: they are read together.
        grant = await self._store.run_batched(_grant_batch, agent_id)
        # A grant of the same name may be that of a machine that joined later.
        if grant is None or grant.key != key:
            return HelloRefused(code=REVOKED, message=f"the certificate of agent {agent_id} was revoked", final=True)
        try:
            group = hello.scaling_group or "default"
            return grant.beyond(scaling_group=group, slots=_claimed(hello), labels=hello.labels)
        except InvalidInput as error:
            return HelloRefused(code=error.code, message=f"{error.message}; {error.hint}", final=True)

    async def _redeemed(self, unit: UnitOfWork, request: JoinRequest, key: str, address: str) -> AgentGrant:
        """Use up a token for a grant. Raises JoinRefused."""
        await _usable_token(unit, request.token)
        # Read again under the lock: another machine may be faster. Requests without a token take no lock.
        await unit.catalog.lock(JoinToken)
        token = await _usable_token(unit, request.token)
        name = token.name
        await _require_free(unit, request.agent_id, key)
        grant = AgentGrant(
            name=request.agent_id,
            key=key,
            scaling_group=token.scaling_group,
            slots=token.slots,
            labels=token.labels,
            token=name,
        )
        await unit.catalog.put(grant, dataclasses.replace(token, used_by=grant.name))
        detail = {"token": name, "from": address, "key": key}
        await unit.audit.append(AuditEntry(f"agent {grant.name}"[:128], "agent.join", grant.name, DONE, detail=detail))
        return grant

    async def _renewed(self, unit: UnitOfWork, request: JoinRequest, key: str, _address: str) -> AgentGrant:
        """The grant of an agent that renews its certificate. Raises JoinRefused."""
        grant = await _grant(unit, request.agent_id)
        if grant is None or grant.key != key:
            raise JoinRefused(f"agent {request.agent_id} has no grant for this key")
        return grant


def _claimed(hello: Hello) -> ResourceSlot:
    """The slots that an agent claims: as it reports them, and no less than its devices have.

    Raises InvalidSlots.
    """
    claimed = Counter[str]()
    for device in hello.devices:
        claimed[device.slot] += device.units
    return ResourceSlot({slot: max(hello.slots.get(slot, 0), claimed[slot]) for slot in {*hello.slots, *claimed}})


async def _grants(agents: Sequence[AgentId], unit: UnitOfWork) -> Sequence[object | None]:
    return await unit.catalog.find(*((AgentGrant, agent_id) for agent_id in agents))


async def _grant_batch(unit: UnitOfWork, agents: Sequence[str]) -> list[AgentGrant | Exception | None]:
    found = await _grants([AgentId(agent_id) for agent_id in agents if is_name(agent_id)], unit)
    grants = {grant.name: grant for grant in found if isinstance(grant, AgentGrant)}
    return [grants.get(agent_id) for agent_id in agents]


async def _grant(unit: UnitOfWork, agent_id: str) -> AgentGrant | None:
    if not is_name(agent_id):
        return None
    try:
        return await unit.catalog.get(AgentGrant, agent_id)
    except ObjectNotFound:
        return None


async def _usable_token(unit: UnitOfWork, text: str) -> JoinToken:
    """The token with this name and secret. Raises JoinRefused."""
    name, _, secret = text.partition(".")
    try:
        token = await unit.catalog.get(JoinToken, name)
    except ObjectNotFound:
        raise JoinRefused(_INVALID) from None
    if not hmac.compare_digest(token.digest, join_digest(secret)) or not token.is_usable(unit.now_ms):
        raise JoinRefused(_INVALID)
    return token


async def _require_free(unit: UnitOfWork, agent_id: str, key: str) -> None:
    """Require a new name, or that of an agent with this key. Raises JoinRefused."""
    grant = await _grant(unit, agent_id)
    if grant is not None and grant.key == key:
        return
    known = grant is not None
    if not known:
        try:
            known = bool(await unit.fleet.get(AgentId(agent_id)))
        except ObjectNotFound:
            return
    if known:
        raise JoinRefused(
            f"another machine is or was agent {agent_id}", hint="choose another name: sokovan agent join --name NAME"
        )
