"""Validates that objects a request refers to exist and are usable by the caller."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sokovan.domain.cluster.queue import ROOT_QUEUE, Queue, QueueState, QueueTree
from sokovan.domain.errors import listed, quoted
from sokovan.domain.ids import DEFAULT_QUEUE
from sokovan.domain.lifecycle.session import SESSION
from sokovan.domain.owners.tenancy import Role
from sokovan.domain.problems import Problem
from sokovan.domain.records import ArrayRecord, SessionResult, SessionSummary
from sokovan.orchestrator.sessions.intake.validation_context import (
    AwaitedArray,
    IntakeQuery,
    group_of,
    is_member,
    owner_of,
)

# Narrower than other names: a session's name is used in URLs and as a host name.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
SHARED_SETTING = "api.allow_several_users_without_isolation"
_ID = re.compile(r"s-[0-9A-HJKMNP-TV-Z]{26}", re.ASCII)


def names(query: IntakeQuery) -> Iterator[Problem]:
    """A session's name is short, not an id, and unique among the user's live sessions."""
    name, namesake = query.request.name, query.context.namesake
    if name and not _NAME.fullmatch(name):
        problem = f"{quoted(name)} is not 1 to 64 letters, digits and . _ - beginning with a letter or digit"
        yield Problem("name", problem)
    elif _ID.fullmatch(name):
        yield Problem("name", f"{name} has the form of an id")
    if namesake is not None:
        kind = "array" if isinstance(namesake, ArrayRecord) else "session"
        yield Problem("name", f"{name} is taken by your {kind} {_id_of(namesake)}, which has not ended")


def membership(query: IntakeQuery) -> Iterator[Problem]:
    """Members submit to their groups, domain admins to their domain's, admins to all."""
    caller, group = query.caller, group_of(query.request, query.caller)
    if group != caller.owner.group and not is_member(caller, query.context.group):
        # Only members may learn whether a group exists.
        mine = listed({caller.owner.group, *caller.groups})
        yield Problem("group", f"there is no group {quoted(group)} that you are a member of; yours: {mine}")
    elif _is_foreign(query):
        problem = f"user {caller.owner.user} is in no group of domain {caller.owner.domain}"
        yield Problem("group", f"{problem}; an administrator adds users to groups")


def isolation(query: IntakeQuery) -> Iterator[Problem]:
    """Only administrators submit to agents whose kernels can read each other's files."""
    if query.caller.role is Role.ADMIN:
        return
    pools, wanted = query.context.pools, query.request.scaling_group
    if any(pool.open for name, pool in pools.items() if name == (wanted or name)):
        problem = "an agent has no sandbox, so that its kernels can read the files and keys of others"
        yield Problem("scaling_group", f"{problem}; an administrator may allow it with {SHARED_SETTING}")


def _is_foreign(query: IntakeQuery) -> bool:
    """Whether the group is of another domain: its limits are not for this user."""
    group, caller = query.context.group, query.caller
    return group is not None and group.domain != caller.owner.domain and caller.role is not Role.ADMIN


def queue_of(query: IntakeQuery) -> str:
    """The requested queue, that of the scaling group, `default`, or the only leaf."""
    if query.request.queue:
        return query.request.queue
    if query.scaling_group is not None and query.scaling_group.default_queue is not None:
        return query.scaling_group.default_queue
    if query.context.queue is not None or not query.context.queues:
        return DEFAULT_QUEUE
    leaves = _open_leaves(query.context.queues)
    return leaves[0].name if len(leaves) == 1 else ""


def queues(query: IntakeQuery) -> Iterator[Problem]:
    """The queue exists, is open, and is a leaf."""
    context, name = query.context, queue_of(query)
    if not context.queues and name == DEFAULT_QUEUE:
        # Without configured queues, the default queue exists implicitly.
        return
    names = listed(queue.name for queue in _open_leaves(context.queues))
    queue = next((queue for queue in context.queues if queue.name == name), None)
    if not name:
        yield Problem("queue", f"choose a queue; available: {names}")
    elif queue is None:
        yield Problem("queue", f"there is no queue {quoted(name)}; available: {names}")
    else:
        yield from _unusable(queue, QueueTree(context.queues) if len(context.queues) > 1 else None)


def bookings(query: IntakeQuery) -> Iterator[Problem]:
    """The booking exists, has not ended, and permits the owner or the queue."""
    name, booking = query.request.booking, query.context.booking
    if not name:
        return
    if booking is None:
        yield Problem("booking", f"there is no booking {quoted(name)}; sokovan booking ls lists them")
    elif booking.to_ms <= query.context.now_ms:
        yield Problem("booking", f"booking {booking.name} has ended")
    elif not booking.permits(owner_of(query), queue_of(query)):
        yield Problem("booking", f"booking {booking.name} does not permit you, your group or the queue")


def dependencies(query: IntakeQuery) -> Iterator[Problem]:
    """Each dependency refers to exactly one session or array, which has not failed.

    Cycles are impossible: a session depends only on sessions that existed before it.
    """
    for index, text in enumerate(query.request.depends_on):
        if text not in query.context.dependencies:
            continue
        found = query.context.dependencies[text]
        where = f"depends_on/{index}"
        if not found:
            yield Problem(where, f"there is no session {quoted(text)}")
        elif len(found) > 1:
            yield Problem(where, f"{quoted(text)} is ambiguous: {listed(map(_id_of, found))}")
        elif has_failed(found[0]):
            yield Problem(where, f"{quoted(text)} has {_ending(found[0])}, so this session would never start")


def has_failed(session: SessionSummary | AwaitedArray) -> bool:
    """Whether a session has ended without success, or a session of an array has."""
    if isinstance(session, AwaitedArray):
        return session.succeeded is False
    return session.status in SESSION.terminal and session.result is not SessionResult.SUCCESS


def _id_of(found: SessionSummary | ArrayRecord | AwaitedArray) -> str:
    match found:
        case SessionSummary():
            return found.session_id
        case ArrayRecord():
            return found.array_id
        case AwaitedArray():
            return found.array.array_id


def _ending(session: SessionSummary | AwaitedArray) -> str:
    if isinstance(session, AwaitedArray):
        return "a session that failed"
    how = "been cancelled" if session.status == "cancelled" else "failed"
    return f"{how} ({session.cause})" if session.cause else how


def _open_leaves(queues: tuple[Queue, ...]) -> list[Queue]:
    parents = {queue.parent for queue in queues}
    return [queue for queue in queues if queue.name not in parents and queue.state is QueueState.OPEN]


def _unusable(queue: Queue, tree: QueueTree | None) -> Iterator[Problem]:
    """Problems of a queue that accepts no sessions; `tree` is given for nested queues."""
    if queue.state is QueueState.CLOSED:
        yield Problem("queue", f"queue {queue.name} is closed; ask an administrator to open it, or choose another")
    if tree is None:
        return
    if queue.name == ROOT_QUEUE or not tree.is_leaf(queue.name):
        yield Problem("queue", f"queue {queue.name} has child queues; sessions run only in leaf queues")
    closed = next((above for above in tree.ancestors(queue.name) if above.state is QueueState.CLOSED), None)
    if closed is not None:
        yield Problem("queue", f"queue {closed.name}, a parent of {queue.name}, is closed")
