"""A session's spec goes back to a request, through a file, that makes the same session again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sokovan.adapters.local.ids import SortableIds
from sokovan.api.mapping.requests import session_request
from sokovan.api.mapping.session_specs import session_spec_view
from sokovan.api.mapping.times import time_text
from sokovan.cli.output import as_json
from sokovan.cli.rendering import as_yaml
from sokovan.domain.ids import ArrayId, KernelId, SessionId
from sokovan.domain.owners.tenancy import Group
from sokovan.domain.session import SessionSpec
from sokovan.orchestrator.sessions.intake.preparer import Preparer
from sokovan.orchestrator.sessions.intake.validation_context import IntakeContext, IntakeQuery
from sokovan.sdk.local_folder import NONE
from sokovan.sdk.spec.session_document import session_document
from sokovan.sdk.spec.session_spec import read_spec_documents
from sokovan.testing.clock import EPOCH_MS, VirtualClock
from sokovan.wire.api.sessions import (
    KernelGroupBody,
    MountBody,
    PartitionBody,
    RetryBody,
    ServicePortBody,
    SessionBody,
)
from tests.unit.orchestrator.sessions.controller_harness import ALICE
from tests.unit.orchestrator.sessions.intake.request_builders import DEFAULT

OPEN = replace(DEFAULT, allow_best_effort=True)
LATER = time_text(EPOCH_MS + 86_400_250)
NAMES = st.sampled_from(["main", "sub", "workers", "ps"])
# Words that YAML reads as other things than texts, unless they are quoted.
WORDS = st.sampled_from(["true", "no", "null", "0x10", "1.5", "~", "a: b", "- x", "#", "", "two\nlines", "ü", "'\""])
TEXTS = st.dictionaries(st.sampled_from(["A", "B_2", "yes"]), WORDS, max_size=2)
LABELS = st.dictionaries(st.sampled_from(["app", "role"]), st.sampled_from(["db", "1", "on"]), max_size=2)
RESOURCES: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.sampled_from([1, 2, 0.5, "250m", "1.125"]),
        "mem": st.sampled_from(["1GiB", "512M", 300 << 20, "1000001k"]),
        "shm": st.just("64Mi"),
        "gpu": st.integers(0, 8),
        "cuda.shares": st.sampled_from([0.25, "1.5"]),
        "tpu.mem": st.just("16Gi"),
    },
) | st.just({"cpu": 0, "mem": 0})
COMMANDS = st.lists(WORDS, min_size=1, max_size=3).map(lambda words: ["run", *words])


@st.composite
def groups(draw: st.DrawFn) -> dict[str, Any]:
    names = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
    found = [
        KernelGroupBody(
            name=name,
            size=(size := draw(st.integers(1, 3))),
            minimum=draw(st.none() | st.integers(0, size)),
            image=draw(st.sampled_from([None, "host", "venv:torch"])),
            command=draw(st.none() | COMMANDS),
            environment=draw(TEXTS),
            resources=draw(st.none() | RESOURCES),
            labels={"part": name, **draw(LABELS)},
            require=draw(LABELS),
            priority=draw(st.integers(-1, 1)),
            nominated=draw(st.sampled_from([None, "agent-1"])),
        )
        for name in names
    ]
    part = PartitionBody(name="p", by="part", min_groups=1, topology=draw(st.sampled_from([None, "hard:rack"])))
    partitions = draw(st.sampled_from([[], [part]]))
    total = sum(one.size for one in found)
    return {"groups": found, "partitions": partitions, "minimum": draw(st.none() | st.integers(0, total))}


@st.composite
def equal_kernels(draw: st.DrawFn) -> dict[str, Any]:
    size = draw(st.integers(1, 4))
    return {"size": size, "minimum": draw(st.none() | st.integers(0, size))}


@st.composite
def batches(draw: st.DrawFn) -> dict[str, Any]:
    times = st.sampled_from([None, LATER])
    array = draw(st.sampled_from([None, "3", "2-8:2%2"]))
    return {"type": "batch", "starts_at": draw(times), "deadline": draw(times), "array": array}


INTERACTIVE = st.fixed_dictionaries({"type": st.just("interactive"), "idle_timeout": st.none() | st.integers(1, 10**6)})
FOLDERS = st.sampled_from([{}, {"workdir": "/data/mine"}, {"upload": "ab" * 32}])
MOUNT = MountBody(source="/data", target="/in", read_only=False)
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["train", "1e5", "no"]),
        "image": st.sampled_from(["host", "venv:torch"]),
        "environment": TEXTS,
        "resources": RESOURCES,
        "mounts": st.sampled_from([[MOUNT], [replace(MOUNT, target="/data")]]),
        "ports": st.just([ServicePortBody(name="web"), ServicePortBody(name="db", port=8_081, protocol="tcp")]),
        "labels": LABELS,
        "require": LABELS,
        "where": st.sampled_from([["zone in (a, b)", "nvme exists"], ["zone not in (c)"]]),
        "tolerations": st.sampled_from([["spot"], ["team=a"]]),
        "affinity": st.just(["app=db within rack"]),
        "anti_affinity": st.just(["app=db"]),
        "architecture": st.just("aarch64"),
        "priority": st.integers(-5, 100),
        "topology": st.sampled_from(["hard", "soft:2", "hard:rack"]),
        "time_limit": st.sampled_from([90, "4h"]),
        "preemptible": st.booleans(),
        "preemption": st.sampled_from(["always", "never"]),
        "stop_grace": st.sampled_from([0, "2m"]),
        "ends_with": st.sampled_from(["all", "main", "any"]),
        "tolerates_failures": st.booleans(),
        "on_preempt": st.sampled_from(["end", "requeue"]),
        "borrow": st.booleans(),
        "migratable": st.booleans(),
        "checkpoint": st.just("10m"),
        "on_agent_lost": st.sampled_from(["end", "requeue"]),
        "retry": st.builds(RetryBody, attempts=st.integers(1, 5), backoff=st.integers(0, 9), elsewhere=st.booleans()),
        "gates": st.sampled_from([["data-ready"], ["a", "b"]]),
        "nominated": st.just("agent-2"),
    },
)


@st.composite
def bodies(draw: st.DrawFn) -> SessionBody:
    """Valid requests that use every field, except those that refer to what exists."""
    parts = [OPTIONS, batches() | INTERACTIVE, equal_kernels() | groups(), FOLDERS]
    given: dict[str, Any] = {"command": draw(COMMANDS), "group": "vision"}
    for part in parts:
        given |= draw(part)
    # A mount may not overlap the folder that the session works in.
    if "workdir" in given:
        given |= {"mounts": []}
    # What is never evicted can neither give back a loan nor be moved.
    if given.get("preemptible") is False:
        given |= {"borrow": False, "migratable": False}
    return SessionBody(**given)


def prepared(body: SessionBody) -> SessionSpec:
    """The session that the server makes of a request."""
    context = IntakeContext(now_ms=EPOCH_MS, scaling_groups=(OPEN,), group=Group("vision", "lab"), is_alone=True)
    query = IntakeQuery(session_request(body), ALICE, context, scaling_group=OPEN)
    return Preparer(SortableIds(VirtualClock()), lambda: "brave-heron-7").prepare(query).spec


def without_ids(spec: SessionSpec) -> SessionSpec:
    """The spec with ids that are equal for all, and an array of its first session alone."""
    array = spec.array
    alone = (
        None if array is None else replace(array, array_id=ArrayId("a"), size=1, first=array.index, last=array.index)
    )
    kernels = tuple(replace(one, kernel_id=KernelId(f"k{at}")) for at, one in enumerate(spec.kernels))
    return replace(spec, session_id=SessionId("s"), kernels=kernels, array=alone)


@pytest.mark.slow
@given(bodies())
def test_the_request_of_a_session_makes_the_same_session_again(body: SessionBody) -> None:
    spec = prepared(body)
    view = session_spec_view(spec, now_ms=EPOCH_MS, is_owner=True)
    assert without_ids(prepared(view.body)) == without_ids(spec)


@pytest.mark.slow
@given(bodies())
def test_a_request_that_is_written_to_a_file_is_read_as_the_same_request(body: SessionBody) -> None:
    wanted = session_spec_view(prepared(body), now_ms=EPOCH_MS, is_owner=True).body
    document = session_document(wanted)
    assert document.get("workdir") == (wanted.workdir or (None if wanted.upload else NONE))
    for text in (as_yaml(document), as_json(document)):
        [found] = read_spec_documents(text, "f")
        read = found.body
        assert (replace(read, workdir="") if read.workdir == NONE else read) == wanted
