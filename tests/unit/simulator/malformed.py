"""Invalid scenarios, each with the line, key and problem of its error."""

from __future__ import annotations

from typing import NamedTuple

# Three lines: the text that a row appends begins in line 4.
CLUSTER = "scenario: s\nagents:\n  n1: {slots: {cpu: 4}}\n"
# Five lines.
WORK = f"{CLUSTER}sessions:\n  a: {{kernels: {{k1: {{slots: {{cpu: 1}}}}}}}}\n"
BOMB = "scenario: s\na: &a [x, x, x, x, x, x, x, x]\n" + "".join(
    f"{after}: &{after} [{', '.join([f'*{before}'] * 8)}]\n"
    for before, after in zip("abcdefgh", "bcdefghi", strict=True)
)


class Malformed(NamedTuple):
    """One malformed scenario and the error it must give."""

    what: str
    text: str
    line: int
    key: str
    problem: str


def agent(rest: str) -> str:
    """A scenario with one agent, in line 3."""
    return f"scenario: s\nagents:\n  n1: {rest}\n"


def session(rest: str) -> str:
    """A scenario with one session of one kernel, in line 5."""
    return f"{CLUSTER}sessions:\n  a: {{{rest}, kernels: {{k1: {{slots: {{cpu: 1}}}}}}}}\n"


def kernel(rest: str) -> str:
    """A scenario with one kernel, in line 7."""
    return f"{CLUSTER}sessions:\n  a:\n    kernels:\n      k1: {rest}\n"


UNKNOWN_KEYS = [
    Malformed("of a scenario", f"{CLUSTER}colour: red\n", 4, "colour", "is not a known key"),
    Malformed("of an agent", agent("{colour: red}"), 3, "agents.n1.colour", "is not a known key"),
    Malformed("of a session", session("colour: red"), 5, "sessions.a.colour", "is not a known key"),
    Malformed("of a kernel", kernel("{colour: red}"), 7, "sessions.a.kernels.k1.colour", "is not a known key"),
    Malformed("of a queue", f"{CLUSTER}queues:\n  q: {{colour: red}}\n", 5, "queues.q.colour", "is not a known key"),
    Malformed("of expect", f"{CLUSTER}expect: {{luck: good}}\n", 4, "expect.luck", "is not a known key"),
    Malformed("of a topology", session("topology: {mod: hard}"), 5, "sessions.a.topology.mod", "is not a known key"),
    Malformed(
        "of a partition",
        session("partitions: [{name: p, by: l, siz: 2}]"),
        5,
        "sessions.a.partitions[0].siz",
        "is not a known key",
    ),
    Malformed(
        "of a hypernode",
        f"{CLUSTER}hypernodes: {{h: {{tear: 1, members: [n1]}}}}\n",
        4,
        "hypernodes.h.tear",
        "is not a known key",
    ),
    Malformed(
        "of a limit", f"{CLUSTER}limits: {{user: {{u: {{slot: {{}}}}}}}}\n", 4, "limits.user.u.slot", "known key"
    ),
    Malformed("of fair share", f"{CLUSTER}fair_share: {{life: 3}}\n", 4, "fair_share.life", "is not a known key"),
    Malformed("of history", f"{CLUSTER}history:\n- {{user: u, at: 3}}\n", 5, "history[0].at", "is not a known key"),
    Malformed("a merge", f"{agent('&x {}')}  n2: {{<<: *x}}\n", 4, "agents.n2.<<", "is not a known key"),
]

UNKNOWN_NAMES = [
    Malformed("the agent of a kernel", kernel("{at: n9}"), 7, "sessions.a.kernels.k1.at", "there is no agent 'n9'"),
    Malformed(
        "a nominated agent", kernel("{nominated: n9}"), 7, "sessions.a.kernels.k1.nominated", "there is no agent 'n9'"
    ),
    Malformed("the cursor", f"{CLUSTER}cursor: n9\n", 4, "cursor", "there is no agent 'n9'"),
    Malformed("the parent of a queue", f"{CLUSTER}queues:\n  q: {{parent: p}}\n", 5, "queues.q.parent", "no queue 'p'"),
    Malformed(
        "a member of a hypernode",
        f"{CLUSTER}hypernodes:\n  h: {{tier: 1, members: [n9]}}\n",
        4,
        "hypernodes",
        "has a member 'n9' that is neither agent nor HyperNode",
    ),
    Malformed("where a session sits", session("hypernode: h"), 5, "sessions.a.hypernode", "there is no hypernode 'h'"),
    Malformed("a scope", f"{CLUSTER}limits: {{planet: {{}}}}\n", 4, "limits.planet", "is not a scope"),
    Malformed("a placed kernel", f"{WORK}expect: {{placed: {{k9: n1}}}}\n", 6, "expect.placed.k9", "no kernel 'k9'"),
    Malformed("where it is placed", f"{WORK}expect: {{placed: {{k1: n9}}}}\n", 6, "expect.placed.k1", "no agent 'n9'"),
    Malformed(
        "where it may be placed",
        f"{WORK}expect: {{placed_in: {{k1: [n1, n9]}}}}\n",
        6,
        "expect.placed_in.k1[1]",
        "'n9'",
    ),
    Malformed("an evicted kernel", f"{WORK}expect: {{evicted: [k9]}}\n", 6, "expect.evicted[0]", "no kernel 'k9'"),
    Malformed("a pending session", f"{WORK}expect: {{pending: [b]}}\n", 6, "expect.pending[0]", "no session 'b'"),
    Malformed("whose reason", f"{WORK}expect: {{reason: {{b: x}}}}\n", 6, "expect.reason.b", "no session 'b'"),
    Malformed("who reserves", f"{WORK}expect: {{reserved: {{b: [n1]}}}}\n", 6, "expect.reserved.b", "no session 'b'"),
    Malformed("where all is", f"{WORK}expect: {{placed_within: h}}\n", 6, "expect.placed_within", "no hypernode 'h'"),
]

WRONG_VALUES = [
    Malformed("negative slots", agent("{slots: {cpu: -1}}"), 3, "agents.n1.slots", "below zero"),
    Malformed("negative text", agent("{slots: {mem: -4Gi}}"), 3, "agents.n1.slots", "below zero"),
    Malformed("a kernel below zero", kernel("{slots: {cpu: -1}}"), 7, "sessions.a.kernels.k1.slots", "below zero"),
    Malformed("an unknown unit", agent("{slots: {cpu: 4Q}}"), 3, "agents.n1.slots", "no unit 'Q' for cpu"),
    Malformed("a fine cpu", agent("{slots: {cpu: 0.0001}}"), 3, "agents.n1.slots", "not a whole number of millicores"),
    Malformed("slots in a list", agent("{slots: [cpu]}"), 3, "agents.n1.slots", "must be a mapping"),
    Malformed("slots that are a number", agent("{slots: 0}"), 3, "agents.n1.slots", "must be a mapping"),
    Malformed("a profile that is a text", "scenario: s\nprofile: fifo\n", 2, "profile", "must be a mapping"),
    Malformed("a status in a list", agent("{status: [alive]}"), 3, "agents.n1.status", "is ['alive']"),
    Malformed(
        "an alias of itself", "scenario: s\nsource: &a [*a]\n", 2, "source[0]", "an alias may not contain itself"
    ),
    Malformed("a tag that does not fit", "scenario: s\nsource: !!int ''\n", 2, "source", "cannot be read as"),
    Malformed("a bad agent name", "scenario: s\nagents:\n  a b: {}\n", 3, "agents.a b", "is not a name for an agent"),
    Malformed("an unknown status", agent("{status: asleep}"), 3, "agents.n1.status", "is 'asleep'"),
    Malformed("a kernel limit below 0", agent("{max_kernels: -1}"), 3, "agents.n1.max_kernels", "must be 0 or more"),
    Malformed("a label that is no text", agent("{labels: {x: [y]}}"), 3, "agents.n1.labels.x", "must be a string"),
    Malformed("agents in a list", "scenario: s\nagents: [n1]\n", 2, "agents", "must be a mapping, not ['n1']"),
    Malformed("sessions as text", f"{CLUSTER}sessions: all\n", 4, "sessions", "must be a mapping, not 'all'"),
    Malformed("no kernels", f"{CLUSTER}sessions:\n  a: {{}}\n", 5, "sessions.a", "a session has at least one kernel"),
    Malformed("a fractional priority", session("priority: 1.5"), 5, "sessions.a.priority", "must be a whole number"),
    Malformed("a minimum below zero", session("min_kernels: -1"), 5, "sessions.a.min_kernels", "must be 0 or more"),
    Malformed("maybe", session("preemptible: perhaps"), 5, "sessions.a.preemptible", "must be true or false"),
    Malformed("sometimes", session("preemption: sometimes"), 5, "sessions.a.preemption", "is 'sometimes'"),
    Malformed("an unknown mode", session("topology: {mode: firm}"), 5, "sessions.a.topology.mode", "is 'firm'"),
    Malformed("tier zero", session("topology: {highest_tier: 0}"), 5, "sessions.a.topology", "must be 1 or more"),
    Malformed("a partition without a label", session("partitions: [{name: p}]"), 5, "sessions.a.partitions[0]", "by"),
    Malformed("queue weight 0", f"{CLUSTER}queues:\n  q: {{weight: 0}}\n", 5, "queues.q", "must be 1 or more"),
    Malformed("an ajar queue", f"{CLUSTER}queues:\n  q: {{state: ajar}}\n", 5, "queues.q.state", "is 'ajar'"),
    Malformed("its own parent", f"{CLUSTER}queues:\n  q: {{parent: q}}\n", 5, "queues.q", "is its own parent"),
    Malformed(
        "queues in a circle",
        f"{CLUSTER}queues:\n  q: {{parent: r}}\n  r: {{parent: q}}\n",
        4,
        "queues",
        "queue 'q' is under itself",
    ),
    Malformed(
        "a guarantee beyond the capability",
        f"{CLUSTER}queues:\n  q: {{guarantee: {{cpu: 2}}, capability: {{cpu: 1}}}}\n",
        5,
        "queues.q",
        "guarantees 2000 cpu but may only use 1000",
    ),
    Malformed(
        "a hypernode of tier 0", f"{CLUSTER}hypernodes:\n  h: {{tier: 0, members: [n1]}}\n", 5, "hypernodes.h", "0"
    ),
    Malformed("an empty hypernode", f"{CLUSTER}hypernodes:\n  h: {{tier: 1}}\n", 5, "hypernodes.h", "has no members"),
    Malformed("no cycle", f"{CLUSTER}cycles: 0\n", 4, "cycles", "must be 1 or more, not 0"),
    Malformed("many cycles", f"{CLUSTER}cycles: many\n", 4, "cycles", "must be a whole number, not 'many'"),
    Malformed("a time before time", f"{CLUSTER}now: -1\n", 4, "now", "must be 0 or more"),
    Malformed("half-known history", f"{CLUSTER}history:\n- {{user: u, age: 3}}\n", 5, "history[0]", "lacks amount"),
    Malformed(
        "no half-life", f"{CLUSTER}fair_share: {{half_life: 0}}\n", 4, "fair_share.half_life", "must be 1 or more"
    ),
    Malformed("an outcome of maybe", f"{CLUSTER}outcomes: {{x: maybe}}\n", 4, "outcomes.x", "must be true or false"),
    Malformed(
        "an unknown policy",
        f"{CLUSTER}profile: {{queue_policy: luck}}\n",
        4,
        "profile.queue_policy",
        "'luck' is not known",
    ),
    Malformed(
        "one action as text",
        f"{CLUSTER}profile: {{actions: allocate}}\n",
        4,
        "profile.actions",
        "must be a list of names",
    ),
    Malformed(
        "a limit below zero", f"{CLUSTER}limits: {{user: {{u: {{sessions: -1}}}}}}\n", 4, "limits.user.u.sessions", "0"
    ),
    Malformed(
        "one kernel name twice",
        f"{WORK}  b:\n    kernels: {{k1: {{}}}}\n",
        7,
        "sessions.b.kernels.k1",
        "another kernel is called 'k1'",
    ),
]

BAD_FORM = [
    Malformed("a key twice", f"{CLUSTER}cycles: 1\ncycles: 2\n", 5, "", "the key 'cycles' is given twice"),
    Malformed("an agent twice", f"{agent('{}')}  n1: {{}}\n", 4, "agents", "the key 'n1' is given twice"),
    Malformed("a key that is a list", f"{CLUSTER}? [a]\n: b\n", 4, "", "a key must be a plain text"),
    Malformed("an alias bomb", BOMB, 2, "", "holds more than"),
    Malformed("a tag of Python", f"{CLUSTER}source: !!python/name:os.system x\n", 4, "source", "cannot be read"),
    Malformed("a number beyond all bounds", f"{CLUSTER}cycles: {'1' * 5000}\n", 4, "cycles", "cannot be read"),
]

# Documents without a scenario name.
NAMELESS = [
    Malformed("no name", "\nagents: {}\n", 2, "", "a scenario needs a name"),
    Malformed("a name that is a list", "scenario: [s]\n", 1, "scenario", "must be a string, not ['s']"),
    Malformed("a list", "- s\n- t\n", 1, "", "must be a mapping, not ['s', 't']"),
    Malformed("a text", "once upon a time\n", 1, "", "must be a mapping, not 'once upon a time'"),
    Malformed("an open bracket", "scenario: s\nagents: {n1\n", 3, "", "this is not YAML"),
    Malformed("a tab", "scenario: s\n\tagents: {}\n", 2, "", "this is not YAML"),
    Malformed("an unknown alias", "scenario: s\nagents: *unknown\n", 2, "", "this is not YAML"),
    Malformed("a control character", "scenario: \x07\n", 1, "", "this is not YAML"),
]

NAMED = [*UNKNOWN_KEYS, *UNKNOWN_NAMES, *WRONG_VALUES, *BAD_FORM]
MALFORMED = [*NAMED, *NAMELESS]
