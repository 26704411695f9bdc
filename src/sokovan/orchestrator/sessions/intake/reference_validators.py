"""Whether what a request names is there, and for the one who asks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sokovan.domain.cluster.queue import ROOT_QUEUE, Queue, QueueState, QueueTree
from sokovan.domain.errors import listed, quoted
from sokovan.domain.lifecycle.session import SESSION
from sokovan.domain.problems import Problem
from sokovan.domain.records import SessionRecord, SessionResult
from sokovan.orchestrator.sessions.intake.validation_context import IntakeQuery, group_of, is_member

DEFAULT_QUEUE = "default"
# Narrower than names are elsewhere: a session's name stands in URLs and in host-like places.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_ID = re.compile(r"s-[0-9A-HJKMNP-TV-Z]{26}", re.ASCII)


def names(asked: IntakeQuery) -> Iterator[Problem]:
    """A session's name is short, no id, and its user's only one until it ends."""
    name, namesake = asked.request.name, asked.facts.namesake
    if name and not _NAME.fullmatch(name):
        problem = f"{quoted(name)} is not 1 to 64 letters, digits and . _ - beginning with a letter or digit"
        yield Problem("name", problem)
    elif _ID.fullmatch(name):
        yield Problem("name", f"{name} has the form of an id")
    if namesake is not None:
        yield Problem("name", f"{name} is taken by your session {namesake.session_id}, which has not ended")


def membership(asked: IntakeQuery) -> Iterator[Problem]:
    """Members submit to their groups, domain admins to their domain's, admins to all."""
    caller, wanted = asked.caller, group_of(asked.request, asked.caller)
    if wanted != caller.owner.group and not is_member(caller, asked.facts.group):
        # Whether a group exists is nobody's business but its members'.
        mine = listed({caller.owner.group, *caller.groups})
        yield Problem("group", f"there is no group {quoted(wanted)} that you are a member of; yours: {mine}")


def queue_of(asked: IntakeQuery) -> str:
    """The queue that a session goes to: the one asked for, `default`, or the only one."""
    if asked.request.queue:
        return asked.request.queue
    if asked.facts.queue is not None or not asked.facts.queues:
        return DEFAULT_QUEUE
    leaves = _open_leaves(asked.facts.queues)
    return leaves[0].name if len(leaves) == 1 else ""


def queues(asked: IntakeQuery) -> Iterator[Problem]:
    """The queue is there, takes work, and has no queues below it."""
    facts, name = asked.facts, queue_of(asked)
    if not facts.queues and name == DEFAULT_QUEUE:
        # Nobody has set up queues: all work is in one that needs no entry.
        return
    names = listed(queue.name for queue in _open_leaves(facts.queues))
    queue = next((queue for queue in facts.queues if queue.name == name), None)
    if not name:
        yield Problem("queue", f"choose a queue; there are {names}")
    elif queue is None:
        yield Problem("queue", f"there is no queue {quoted(name)}; there are {names}")
    else:
        yield from _unusable(queue, QueueTree(facts.queues) if len(facts.queues) > 1 else None)


def dependencies(asked: IntakeQuery) -> Iterator[Problem]:
    """What it waits for is there, can be told apart, and has not failed.

    A circle cannot arise: a session waits only for those that were there before it.
    """
    for index, text in enumerate(asked.request.depends_on):
        if text not in asked.facts.dependencies:
            continue
        found = asked.facts.dependencies[text]
        where = f"depends_on/{index}"
        if not found:
            yield Problem(where, f"there is no session {quoted(text)}")
        elif len(found) > 1:
            yield Problem(where, f"{quoted(text)} may mean {listed(one.session_id for one in found)}")
        elif has_failed(found[0]):
            yield Problem(where, f"{quoted(text)} has {_ending(found[0])}, so this session would never start")


def has_failed(session: SessionRecord) -> bool:
    """Whether a session has ended in a way that nobody can build on."""
    return session.status in SESSION.terminal and session.result is not SessionResult.SUCCESS


def _ending(session: SessionRecord) -> str:
    how = "been cancelled" if session.status == "cancelled" else "failed"
    return f"{how} ({session.cause})" if session.cause else how


def _open_leaves(queues: tuple[Queue, ...]) -> list[Queue]:
    parents = {queue.parent for queue in queues}
    return [queue for queue in queues if queue.name not in parents and queue.state is QueueState.OPEN]


def _unusable(queue: Queue, tree: QueueTree | None) -> Iterator[Problem]:
    """Why a queue takes no session; `tree` is there where queues stand below each other."""
    if queue.state is QueueState.CLOSED:
        yield Problem("queue", f"queue {queue.name} is closed; ask an administrator to open it, or choose another")
    if tree is None:
        return
    if queue.name == ROOT_QUEUE or not tree.is_leaf(queue.name):
        yield Problem("queue", f"queue {queue.name} has queues below it; only those run sessions")
    closed = next((above for above in tree.ancestors(queue.name) if above.state is QueueState.CLOSED), None)
    if closed is not None:
        yield Problem("queue", f"queue {closed.name} above {queue.name} is closed")
