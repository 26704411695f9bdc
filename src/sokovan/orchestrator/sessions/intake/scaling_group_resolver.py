"""Chooses the scaling group of a session."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from sokovan.domain.cluster.agent import DOCKER_RUNTIME, PROCESS_RUNTIME
from sokovan.domain.cluster.image import image_runtime
from sokovan.domain.cluster.scaling_group import ScalingGroup
from sokovan.domain.errors import listed, quoted
from sokovan.domain.ids import DEFAULT_SCALING_GROUP, is_name
from sokovan.domain.lifecycle.durations import duration_text
from sokovan.domain.owners.tenancy import Owner
from sokovan.domain.problems import Problem
from sokovan.domain.session import SessionType
from sokovan.domain.slots import (
    AMOUNT_MAX,
    CUDA_SHARES_SLOT,
    CUDA_SLOT,
    MIG_PREFIX,
    NO_SLOTS,
    ResourceSlot,
    is_accelerator,
)
from sokovan.orchestrator.sessions.intake.kernel_groups import KernelGroup
from sokovan.orchestrator.sessions.intake.pools import Pool
from sokovan.orchestrator.sessions.intake.resource_calculator import EVERYWHERE, Minimum, ResourceCalculator
from sokovan.orchestrator.sessions.intake.shape_validators import CLUSTER_SIZE_MAX
from sokovan.orchestrator.sessions.intake.validation_context import IntakeQuery, group_of, owner_of

LEFT_OUT_MAX = 8
_RUN_AS = {PROCESS_RUNTIME: "kernels as processes", DOCKER_RUNTIME: "containers", "": "kernels that serve"}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupNeeds:
    """The properties of a session that its scaling group depends on.

    `each` are the slots of the kernels of each kernel group, `total` those of all kernels
    that start together. It runs on one of `architectures`; None means any. `runtimes` are
    those of the images of its kernels.
    """

    owner: Owner
    session_type: SessionType
    each: tuple[ResourceSlot, ...]
    total: ResourceSlot = NO_SLOTS
    architectures: frozenset[str] | None = None
    runtimes: frozenset[str] = frozenset()
    time_limit_s: int | None = None
    idle_timeout_s: int | None = None


@dataclass(frozen=True, slots=True)
class GroupChoice:
    """The chosen scaling group and why, or the problems if there is none.

    `why` is empty if there was nothing to choose.
    """

    group: ScalingGroup | None
    why: str = ""
    problems: tuple[Problem, ...] = ()
    is_private: bool = False


class ScalingGroupResolver:
    """Chooses the requested group, or the best of those that take the session.

    A group must be public or assigned to the owner, take sessions of the type and of the
    time limit, and have the slots, the architecture and the runtimes. Of those left, the groups whose
    agents are large enough come first, then those with room now, without accelerators that
    are not requested, `default`, with the most room left; at last the name decides.
    """

    def __init__(self, groups: Sequence[ScalingGroup], pools: Mapping[str, Pool] | None = None) -> None:
        self._pools = pools or {}
        self._groups = {str(group.name): group for group in sorted(groups, key=lambda group: group.name)}

    def choose(self, requested: str, needs: GroupNeeds) -> GroupChoice:
        """The scaling group of a session."""
        if requested:
            return self._requested(requested, needs)
        refused = {name: why for name, group in self._groups.items() if (why := refusal(group, needs)) is not None}
        usable = [group for name, group in self._groups.items() if name not in refused]
        unsuited = {str(group.name): text for group in usable if (text := self._unsuited(group, needs))}
        suited = sorted(
            (group for group in usable if group.name not in unsuited), key=lambda group: self._rank(group, needs)
        )
        if suited:
            chosen = suited[0]
            passed = {str(group.name): self._passed_over(group, chosen, needs) for group in suited[1:]}
            return GroupChoice(chosen, self._why(chosen, {**passed, **refused_texts(refused), **unsuited}, needs))
        # Its own problems say more than those of a choice.
        one = usable[0] if len(usable) == 1 else next((g for g in usable if g.name == DEFAULT_SCALING_GROUP), None)
        return GroupChoice(one) if one is not None else self._none(refused, unsuited)

    def _requested(self, name: str, needs: GroupNeeds) -> GroupChoice:
        group = next((group for group in self._groups.values() if group.name == name), None)
        if group is None:
            usable = [one.name for one in self._groups.values() if one.is_open_to(needs.owner)]
            problem = f"there is no scaling group {quoted(name)}; available: {listed(usable)}"
            return GroupChoice(None, problems=(Problem("scaling_group", problem),))
        why = refusal(group, needs)
        return GroupChoice(group) if why is None else _refused(group.name, why)

    def _none(self, refused: Mapping[str, Refusal], unsuited: Mapping[str, str]) -> GroupChoice:
        if len(self._groups) == 1 and refused:
            return _refused(*next(iter(refused.items())))
        reasons = _reasons({**unsuited, **refused_texts(refused)})
        text = f"no scaling group takes this session: {reasons}" if reasons else "there is no scaling group"
        private = bool(refused) and not unsuited and all(why.is_private for why in refused.values())
        return GroupChoice(None, problems=(Problem("scaling_group", text),), is_private=private)

    def _unsuited(self, group: ScalingGroup, needs: GroupNeeds) -> str:
        """Why the agents of a group do not suit a session; empty if they do."""
        unknown = unknown_slots(group, self._pools, needs.each)
        if unknown:
            return f"has no {listed(unknown)}"
        pool = self._pools.get(group.name)
        if pool is not None and needs.architectures is not None and not pool.architectures & needs.architectures:
            return f"has agents of {listed(pool.architectures)} only"
        serves = needs.session_type is SessionType.INFERENCE
        lacking = [] if pool is None else [one for one in needs.runtimes if not pool.runs(one, serves=serves)]
        return f"has no agent that runs {_RUN_AS[min(lacking)]}" if lacking else ""

    def _rank(self, group: ScalingGroup, needs: GroupNeeds) -> tuple[bool, bool, int, bool, int, str]:
        pool = self._pools.get(group.name)
        room = _Room(pool, needs)
        slots = frozenset() if pool is None else pool.slots
        spare = sum(is_accelerator(slot) and slot not in needs.total for slot in slots)
        other = group.name != DEFAULT_SCALING_GROUP
        return not room.could_fit, not room.fits_now, spare, other, -room.free_permille, group.name

    def _passed_over(self, group: ScalingGroup, chosen: ScalingGroup, needs: GroupNeeds) -> str:
        room = _Room(self._pools.get(group.name), needs)
        if not room.could_fit:
            return "has no agent that is large enough"
        return f"comes after {chosen.name}" if room.fits_now else "has no room now"

    def _why(self, chosen: ScalingGroup, left_out: Mapping[str, str], needs: GroupNeeds) -> str:
        if not left_out:
            return ""
        room = _Room(self._pools.get(chosen.name), needs)
        now = "it has room now" if room.fits_now and room.could_fit else "it takes the session, which waits for room"
        return f"scaling group {chosen.name}: {now}; left out: {_reasons(left_out)}"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a scaling group does not take a session, and the field of the request."""

    field: str
    text: str
    is_private: bool = False


def refusal(group: ScalingGroup, needs: GroupNeeds) -> Refusal | None:
    """Why a group does not take a session by its settings; None if it does."""
    if not group.is_open_to(needs.owner):
        text = "is private, and not assigned to you, your group or your domain"
        return Refusal("scaling_group", text, is_private=True)
    if not group.takes(needs.session_type):
        types = listed(group.session_types)
        return Refusal("type", f"takes sessions of type {types}, not {needs.session_type}")
    if not group.allow_best_effort and not all(needs.each):
        text = "takes no best-effort kernels (0 of everything); request cpu and mem, or omit both for the defaults"
        return Refusal("resources", text)
    most, limit = group.lifetime_max_s, needs.time_limit_s
    if most is not None and limit is not None and limit > most:
        text = f"ends sessions after {duration_text(most)}, before the time limit of {duration_text(limit)}"
        return Refusal("time_limit", text)
    longest, idle = group.idle_timeout_max_s, needs.idle_timeout_s
    if longest is not None and idle is not None and idle > longest:
        text = f"ends idle sessions after {duration_text(longest)}, before the idle timeout of {duration_text(idle)}"
        return Refusal("idle_timeout", text)
    return None


def refused_texts(refused: Mapping[str, Refusal]) -> dict[str, str]:
    """The reasons by scaling group."""
    return {name: why.text for name, why in refused.items()}


def _refused(name: str, why: Refusal) -> GroupChoice:
    problem = Problem(why.field, f"scaling group {name} {why.text}")
    return GroupChoice(None, problems=(problem,), is_private=why.is_private)


def _reasons(left_out: Mapping[str, str]) -> str:
    """The groups that were left out, each with its reason; at most LEFT_OUT_MAX."""
    texts = [f"{name} {why}" for name, why in sorted(left_out.items())]
    more = len(texts) - LEFT_OUT_MAX
    return ", ".join([*texts[:LEFT_OUT_MAX], *([f"{more} more"] if more > 0 else [])])


class _Room:
    """Whether a session fits on the agents of a pool; an estimate, by slot."""

    def __init__(self, pool: Pool | None, needs: GroupNeeds) -> None:
        self.could_fit = pool is not None
        self.fits_now, self.free_permille = self.could_fit, 0
        if pool is None or pool.room is None:
            return
        rooms = [
            slots
            for architecture, slots in pool.room.items()
            if needs.architectures is None or architecture in needs.architectures
        ]
        shares = []
        for slot, amount in needs.total.items():
            found = [slots[slot] for slots in rooms if slot in slots]
            largest = max(each[slot] for each in needs.each)
            free = sum(one.free for one in found) - pool.taken.get(slot, 0)
            most_free, most = (max((getattr(one, name) for one in found), default=0) for name in ("most_free", "most"))
            self.could_fit = self.could_fit and most >= largest
            self.fits_now = self.fits_now and most_free >= largest and free >= amount
            shares.append(1000 * (free - amount) // max(free, amount, 1))
        self.free_permille = min(shares, default=0)


def group_needs(query: IntakeQuery, groups: Sequence[KernelGroup], calculator: ResourceCalculator) -> GroupNeeds:
    """The properties of a request that its scaling group depends on."""
    request = query.request
    least = policy_minimums(query)
    each = tuple(calculator.calculate(group.resources, None, where="", minimums=least).slots for group in groups)
    starting: Counter[str] = Counter()
    for group, slots in zip(groups, each, strict=True):
        count = max(1, min(group.size, CLUSTER_SIZE_MAX) if group.minimum is None else group.minimum)
        starting.update({slot: amount * count for slot, amount in slots.items()})
    known = [{image.architecture for image in query.context.images.get(group.image, ())} for group in groups]
    runnable = frozenset.intersection(*map(frozenset, filter(None, known))) if any(known) else None
    return GroupNeeds(
        # An invalid group is reported by its own validator.
        owner=owner_of(query) if is_name(group_of(request, query.caller)) else query.caller.owner,
        session_type=request.session_type,
        each=each,
        total=ResourceSlot({slot: min(amount, AMOUNT_MAX) for slot, amount in starting.items()}),
        architectures=frozenset({request.architecture}) if request.architecture else runnable,
        runtimes=frozenset(image_runtime(group.image) for group in groups),
        time_limit_s=request.time_limit_s,
        idle_timeout_s=request.idle_timeout_s,
    )


def disk_limit(query: IntakeQuery) -> int | None:
    """The disk space of each kernel by the policies of its owner, the least of them."""
    limits = (policy.kernel_disk_max for _, policy in query.context.policies)
    return min((limit for limit in limits if limit is not None), default=None)


def policy_minimums(query: IntakeQuery) -> tuple[Minimum, ...]:
    """The least resources of a kernel by the policies of the owner."""
    return tuple(
        Minimum(f"the quota of {whose}", policy.slots_min)
        for whose, policy in query.context.policies
        if policy.slots_min
    )


def available_slots(group: ScalingGroup, pools: Mapping[str, Pool]) -> tuple[str, ...]:
    """The slots of a scaling group: those it lists, else those its agents have."""
    if group.known_slots:
        return tuple(sorted(EVERYWHERE.union(group.known_slots)))
    return tuple(sorted(EVERYWHERE | pools[group.name].slots)) if group.name in pools else ()


def unknown_slots(group: ScalingGroup, pools: Mapping[str, Pool], slots: Iterable[ResourceSlot]) -> tuple[str, ...]:
    """Slots that a scaling group does not have.

    Every slot is valid for a group that lists none and has no agents. For one that lists
    none, those of its slot priority are valid even if no agent has them: the session waits.
    """
    known = {*available_slots(group, pools), *(() if group.known_slots else group.slot_priority)}
    if not group.known_slots and group.name not in pools:
        return ()
    return tuple(sorted({slot for one in slots for slot in one} - known))


def slot_problems(
    scaling_group: ScalingGroup, pools: Mapping[str, Pool], slots: ResourceSlot, *, where: str
) -> Iterator[Problem]:
    """Problems for slots that the scaling group does not have; 0 is always valid."""
    known = available_slots(scaling_group, pools)
    name = f"scaling group {scaling_group.name}"
    other_kind = {slot: text for slot in slots if slot not in known and (text := _other_kind(slot, known))}
    for slot, text in other_kind.items():
        yield Problem(f"{where}/{slot}", f"{name} {text}")
    for slot in unknown_slots(scaling_group, pools, [slots]):
        if slot in other_kind:
            continue
        there = f"{name} has" if scaling_group.known_slots else f"the agents of {name} have"
        # `cuda` usually means `cuda.device`.
        close = [one for one in known if one.startswith(f"{slot}.")] or get_close_matches(slot, known, n=1)
        meant = f"; did you mean {close[0]}?" if close else ""
        yield Problem(f"{where}/{slot}", f"{there} {listed(known)}, not {slot}{meant}")


def _other_kind(slot: str, known: Iterable[str]) -> str:
    """The offer of devices of the other kind, whole or in shares; empty if there are none."""
    family, _, kind = slot.rpartition(".")
    whole, shares = f"{family}.device", f"{family}.shares"
    if kind == "shares" and whole in known:
        return (
            f"offers whole devices only ({whole}), no shares of them; request a whole number, or ask an administrator "
            "to start agents with --gpu-shares"
        )
    if kind == "device" and shares in known:
        return f"offers devices in shares only ({shares}); a whole one is --slot {shares}=1"
    slices = [one for one in known if one.startswith(MIG_PREFIX)]
    if slices and slot in {CUDA_SLOT, CUDA_SHARES_SLOT}:
        return f"offers slices of devices only ({listed(slices)}); one is --slot {slices[0]}=1"
    return ""
