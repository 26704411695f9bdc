"""The part of the system state that a request is validated against."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias, TypeVar

from sokovan.domain.cluster.image import Image, is_process_image
from sokovan.domain.cluster.queue import Queue
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.ids import ARCHITECTURE_DEFAULT, DEFAULT_QUEUE, ArrayId, SessionId, is_name
from sokovan.domain.lifecycle.session import SESSION, SessionStatus
from sokovan.domain.owners.access import AccessSubject, session_scope
from sokovan.domain.owners.policy import STORED_PENDING_DEFAULT, ResourcePolicy
from sokovan.domain.owners.tenancy import Domain, Group, Keypair, Owner, Role, User
from sokovan.domain.problems import InvalidRequest, Problem
from sokovan.domain.records import ArrayRecord, SessionSummary
from sokovan.domain.session_request import Caller, SessionRequest
from sokovan.orchestrator.sessions.intake.kernel_groups import kernel_groups
from sokovan.orchestrator.sessions.intake.pools import Pool
from sokovan.orchestrator.sessions.references import sessions_or_arrays
from sokovan.ports.repositories.catalog import Booking, CatalogItem, CatalogRepository, Item
from sokovan.ports.repositories.sessions import SessionFilter
from sokovan.ports.storage import UnitOfWork

T = TypeVar("T")

NOT_ENDED: frozenset[SessionStatus] = frozenset(SessionStatus) - SESSION.terminal
# No more than this many of one kind are looked up; the validators refuse such a request anyway.
LOOKED_UP_MAX = 256
UNKNOWN_MAX = 8
# Unknown dependencies of requests that are judged together, as parts of a batch are.
UNKNOWN_TOGETHER_MAX = 64
ARCHITECTURES_MAX = 8
# Another manager may store sessions of the same user, so that a count is not used for long.
COUNT_USED_MS = 10_000
USERS_COUNTED_MAX = 10_000
# Counting so many takes long enough that a refusal is repeated for a moment.
MANY_PENDING = 1_000
REFUSED_FOR_MS = 250
# The sessions and arrays that each name or id may refer to.
Dependencies: TypeAlias = Mapping[str, tuple["SessionSummary | AwaitedArray", ...]]
# Summary of the agents by scaling group.
Pools: TypeAlias = Mapping[str, Pool]


@dataclass(frozen=True, slots=True)
class AwaitedArray:
    """An array that a request depends on; `succeeded` is None until that is known."""

    array: ArrayRecord
    succeeded: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakeContext:
    """System state that validators and preparers need for one request.

    `pools` summarises the agents of each scaling group that has any. `dependencies` are
    the sessions that each name may refer to for the caller; `namesake` is the session or
    array of the user that has the same name and has not ended. With `is_alone`, the caller
    is the only user of the system; it is read only for requests that name folders.
    """

    now_ms: int
    pools: Pools = field(default_factory=dict)
    scaling_groups: tuple[ScalingGroup, ...] = ()
    queues: tuple[Queue, ...] = ()
    queue: Queue | None = None
    booking: Booking | None = None
    images: Mapping[str, tuple[Image, ...]] = field(default_factory=dict)
    policies: tuple[tuple[str, ResourcePolicy], ...] = ()
    group: Group | None = None
    dependencies: Dependencies = field(default_factory=dict)
    namesake: SessionSummary | ArrayRecord | None = None
    is_alone: bool = False


@dataclass(frozen=True, slots=True)
class IntakeQuery:
    """A request with its caller and the state to validate it against.

    `scaling_group` is None until it is chosen.
    """

    request: SessionRequest
    caller: Caller
    context: IntakeContext
    scaling_group: ScalingGroup | None = None


def group_of(request: SessionRequest, caller: Caller) -> str:
    """The project that a session is accounted to."""
    return request.group or caller.owner.group


def owner_of(query: IntakeQuery) -> Owner:
    """The owner of the session: the caller, in the requested group."""
    return replace(query.caller.owner, group=group_of(query.request, query.caller))


def session_dependencies(query: IntakeQuery) -> tuple[SessionId, ...]:
    """The sessions that a valid request depends on, each once."""
    found = (query.context.dependencies[text][0] for text in query.request.depends_on)
    return tuple(dict.fromkeys(one.session_id for one in found if isinstance(one, SessionSummary)))


def array_dependencies(query: IntakeQuery) -> tuple[ArrayId, ...]:
    """The arrays that a valid request depends on, each once."""
    found = (query.context.dependencies[text][0] for text in query.request.depends_on)
    return tuple(dict.fromkeys(one.array.array_id for one in found if isinstance(one, AwaitedArray)))


def is_member(caller: Caller, group: Group | None) -> bool:
    """Whether the caller may submit to a group."""
    if group is None:
        return False
    if group.name == caller.owner.group or group.name in caller.groups or caller.role is Role.ADMIN:
        return True
    return caller.role is Role.DOMAIN_ADMIN and group.domain == caller.owner.domain


class IntakeContextReader:
    """Reads intake contexts; catalog items that several requests need are read once."""

    def __init__(self, unit: UnitOfWork) -> None:
        self.unit = unit
        self._items = _CatalogCache(unit.catalog)
        self.admitted: dict[str, int] = {}  # new sessions by user
        self._namesakes: dict[tuple[str, str], SessionSummary | ArrayRecord | None] = {}

    async def of(
        self, request: SessionRequest, caller: Caller, *, pools: Pools, dependencies: Dependencies
    ) -> IntakeContext:
        """Read the state that validators and preparers need."""
        items = self._items
        await items.read(*_needed(request, caller, pools))
        groups = await _scaling_groups(items, request.scaling_group)
        queue = items.of(Queue, request.queue or DEFAULT_QUEUE)
        chosen_by_group = not request.queue and any(one.default_queue is not None for one in groups)
        group = items.of(Group, group_of(request, caller))
        return IntakeContext(
            now_ms=self.unit.now_ms,
            pools=pools,
            scaling_groups=groups,
            queue=queue,
            booking=items.of(Booking, request.booking),
            queues=await (items.all(Queue) if chosen_by_group else _queues(items, groups, queue)),
            images=await _images(items, request, pools),
            policies=await _policies(items, caller, group if is_member(caller, group) else None),
            group=group,
            dependencies=dependencies,
            namesake=await self.namesake(request.name, caller.owner.user),
            is_alone=bool(request.mounts or request.workdir) and await is_alone(self.unit),
        )

    async def namesake(self, name: str, user: str) -> SessionSummary | ArrayRecord | None:
        """The user's session or array of this name that has not ended; read once."""
        if not name:
            return None
        if (user, name) not in self._namesakes:
            self._namesakes[user, name] = await _namesake(self.unit, name, user)
        return self._namesakes[user, name]


async def is_alone(unit: UnitOfWork) -> bool:
    """Whether the system has one user only."""
    return await unit.catalog.count(User) == 1


class DependencyReader:
    """Looks up the dependencies of requests that are judged together, each name once.

    Unknown names are the most expensive to look up, and a few are enough to refuse a
    request, so the search stops after UNKNOWN_MAX of them.
    """

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._known: dict[str, tuple[SessionSummary | AwaitedArray, ...]] = {}
        self._unknown = 0

    async def read(self, unit: UnitOfWork, texts: Sequence[str]) -> Dependencies:
        """The sessions that each name or id may refer to for the caller.

        Raises InvalidRequest if too many names of the other requests were unknown.
        """
        found: dict[str, tuple[SessionSummary | AwaitedArray, ...]] = {}
        for text in dict.fromkeys(texts[:LOOKED_UP_MAX]):
            found[text] = await self._looked_up(unit, text)
            if sum(not some for some in found.values()) >= UNKNOWN_MAX:
                break
        return found

    async def _looked_up(self, unit: UnitOfWork, text: str) -> tuple[SessionSummary | AwaitedArray, ...]:
        if text not in self._known:
            if self._unknown >= UNKNOWN_TOGETHER_MAX:
                reason = (
                    f"was not looked up, since {self._unknown} others of this batch are unknown; correct those first"
                )
                raise InvalidRequest([Problem("depends_on", reason)])
            self._known[text] = await _visible(unit, text, self._caller)
            self._unknown += not self._known[text]
        return self._known[text]


async def _visible(unit: UnitOfWork, text: str, caller: Caller) -> tuple[SessionSummary | AwaitedArray, ...]:
    """The sessions or arrays that a name may refer to; the caller's own take precedence."""
    for scope in visible_to(caller):
        sessions, arrays = await sessions_or_arrays(unit, text, scope)
        outcomes = await unit.arrays.outcomes([one.array_id for one in arrays]) if arrays else {}
        awaited = (AwaitedArray(one, outcomes.get(one.array_id)) for one in arrays)
        found: tuple[SessionSummary | AwaitedArray, ...] = (*sessions, *awaited)
        if found:
            return found
    return ()


def visible_to(caller: Caller) -> list[SessionFilter]:
    """Sessions that the caller may depend on, as filters in order of precedence.

    Only visible sessions: a dependency reveals how the other session ends.
    """
    owner = caller.owner
    scope = session_scope(AccessSubject(user=owner.user, domain=owner.domain, role=caller.role, groups=caller.groups))
    own = SessionFilter(user=owner.user, domain=scope.domain)
    return [own] if scope.user else [own, SessionFilter(domain=scope.domain)]


class PendingLimit:
    """Counts the pending sessions of users, up to their limits.

    A count is kept, and increased by what is stored since, so that it is never too low. Only
    near the limit are the sessions counted for each request. A user who is refused with many
    pending sessions is refused again for a moment, without a transaction: others write meanwhile.
    """

    def __init__(self, monotonic_ms: Callable[[], int]) -> None:
        self._monotonic_ms = monotonic_ms
        self._counted: dict[str, tuple[int, int]] = {}  # by user: the count, and its time
        self._refused: dict[str, tuple[int, str, int]] = {}  # by user: for how many, why, and when

    def refused_lately(self, user: str, sessions: int) -> str:
        """Why as many or fewer new sessions were refused a moment ago, or empty."""
        refused, problem, at_ms = self._refused.get(user, (0, "", 0))
        is_late = self._monotonic_ms() - at_ms >= REFUSED_FOR_MS
        return "" if is_late or sessions < refused else problem

    async def admit(
        self, reader: IntakeContextReader, user: str, policies: Sequence[tuple[str, ResourcePolicy]], sessions: int
    ) -> str:
        """Count new sessions of a user; why they are too many, or empty."""
        known = self.refused_lately(user, sessions)
        if known:
            return known
        most, whose = stored_pending_limit(policies)
        count, at_ms = self._counted.get(user, (most, 0))
        unit, waiting = reader.unit, reader.admitted
        if count + sessions > most or not 0 <= unit.now_ms - at_ms < COUNT_USED_MS:
            # Those that were admitted before in the same transaction are not stored yet.
            count, at_ms = await unit.sessions.pending_count(user, most=most) + waiting.get(user, 0), unit.now_ms
        if count + sessions > most:
            more = f"{sessions} more are" if sessions > 1 else "one more is"
            problem = f"{user} has {count} pending sessions, {more} beyond {most}, {whose}"
            if count >= MANY_PENDING:
                self._keep(self._refused, user, (sessions, problem, self._monotonic_ms()))
            return problem
        self._keep(self._counted, user, (count + sessions, at_ms))
        waiting[user] = waiting.get(user, 0) + sessions
        return ""

    @staticmethod
    def _keep(known: dict[str, T], user: str, value: T) -> None:
        if len(known) >= USERS_COUNTED_MAX:
            known.clear()
        known[user] = value


def stored_pending_limit(policies: Sequence[tuple[str, ResourcePolicy]]) -> tuple[int, str]:
    """The least limit of the policies of an owner, and whose it is; else the default."""
    given = [
        (one.stored_pending_max, f"the limit of {whose}")
        for whose, one in policies
        if one.stored_pending_max is not None
    ]
    return min(given, default=(STORED_PENDING_DEFAULT, "the limit without a quota"))


class _CatalogCache:
    """Catalog items of one transaction, read in batches: a round trip costs more than a row."""

    def __init__(self, catalog: CatalogRepository) -> None:
        self._catalog = catalog
        self._known: dict[tuple[type, str], CatalogItem | None] = {}
        self._all: dict[type, Sequence[CatalogItem]] = {}

    async def read(self, *keys: tuple[type[CatalogItem], str]) -> None:
        """Read the items that are not cached yet."""
        fresh = [pair for pair in dict.fromkeys(keys) if pair not in self._known]
        # Invalid names are not looked up: some databases reject such a text.
        names = [pair for pair in fresh if all(is_name(part) for part in pair[1].split(" "))]
        self._known.update(zip(names, await self._catalog.find(*names), strict=True))

    def of(self, kind: type[T], name: str) -> T | None:
        """An item that was read; None if it does not exist."""
        item = self._known.get((kind, name))
        return item if isinstance(item, kind) else None

    async def all(self, kind: type[Item]) -> tuple[Item, ...]:
        """Every item of a kind."""
        if kind not in self._all:
            self._all[kind] = await self._catalog.all(kind)
        return tuple(item for item in self._all[kind] if isinstance(item, kind))


def _needed(request: SessionRequest, caller: Caller, pools: Pools) -> list[tuple[type[CatalogItem], str]]:
    owner = caller.owner
    return [
        *([(ScalingGroup, request.scaling_group)] if request.scaling_group else []),
        *([(Booking, request.booking)] if request.booking else []),
        (Queue, request.queue or DEFAULT_QUEUE),
        (Group, group_of(request, caller)),
        (Keypair, owner.access_key),
        (User, owner.user),
        (Domain, owner.domain),
        *((Image, f"{name} {one}") for name in _image_names(request) for one in _architectures(request, pools)),
    ]


async def _scaling_groups(items: _CatalogCache, requested: str) -> tuple[ScalingGroup, ...]:
    """The requested group; all groups if none is requested or there is no such group."""
    one = items.of(ScalingGroup, requested) if requested else None
    return (one,) if one is not None else await items.all(ScalingGroup)


async def _queues(items: _CatalogCache, groups: Sequence[ScalingGroup], queue: Queue | None) -> tuple[Queue, ...]:
    """The queue alone if queues are flat; all queues if they form a tree."""
    if queue is not None and not any(group.scheduler_opts.get("hierarchy") for group in groups):
        return (queue,)
    return await items.all(Queue)


def _image_names(request: SessionRequest) -> list[str]:
    return list(dict.fromkeys(group.image for group in kernel_groups(request)[:LOOKED_UP_MAX]))


def _architectures(request: SessionRequest, pools: Pools) -> list[str]:
    """The architectures for which images are looked up."""
    if request.architecture:
        return [request.architecture]
    pooled = (one for pool in pools.values() for one in (pool.architecture, *sorted(pool.architectures)))
    return list(dict.fromkeys([*pooled, ARCHITECTURE_DEFAULT]))[:ARCHITECTURES_MAX]


async def _images(items: _CatalogCache, request: SessionRequest, pools: Pools) -> dict[str, tuple[Image, ...]]:
    """The catalog's images of the requested names."""
    found: dict[str, tuple[Image, ...]] = {}
    for name in _image_names(request):
        candidates = [items.of(Image, f"{name} {one}") for one in _architectures(request, pools)]
        found[name] = tuple(image for image in candidates if image is not None)
        if not found[name] and not is_process_image(name):
            # Rare: the image is missing, or exists for other architectures only.
            found[name] = tuple(image for image in await items.all(Image) if image.name == name)
    return found


async def _policies(
    items: _CatalogCache, caller: Caller, group: Group | None
) -> tuple[tuple[str, ResourcePolicy], ...]:
    """The policies that apply to the owner, by scope."""
    owner = caller.owner
    holders = (
        (f"key {owner.access_key}", items.of(Keypair, owner.access_key)),
        (f"user {owner.user}", items.of(User, owner.user)),
        (f"group {'' if group is None else group.name}", group),
        (f"domain {owner.domain}", items.of(Domain, owner.domain)),
    )
    named = {whose: holder.policy for whose, holder in holders if holder is not None and holder.policy is not None}
    if not named:
        return ()
    await items.read(*((ResourcePolicy, name) for name in named.values()))
    policies = ((whose, items.of(ResourcePolicy, name)) for whose, name in named.items())
    return tuple((whose, policy) for whose, policy in policies if policy is not None)


async def _namesake(unit: UnitOfWork, name: str, user: str) -> SessionSummary | ArrayRecord | None:
    """The user's session or array of this name that has not ended."""
    if not is_name(name):
        return None
    live = SessionFilter(statuses=NOT_ENDED, user=user)
    sessions = await unit.sessions.summaries(replace(live, name=name), limit=1)
    found: Sequence[SessionSummary | ArrayRecord] = sessions or await unit.arrays.page(live, limit=1, name=name)
    return found[0] if found else None
