"""The spec of a session."""

from __future__ import annotations

import pytest

from sokovan.sdk.errors import InvalidSpecFile
from sokovan.sdk.spec.session_spec import SESSION_FIELDS, read_spec_documents
from sokovan.wire.api.sessions import KernelGroupBody, MountBody, PartitionBody, RetryBody, ServicePortBody, SessionBody


def read_specs(text: str, file: str) -> list[SessionBody]:
    """The requests for the sessions of a file."""
    return [spec.body for spec in read_spec_documents(text, file)]


HEAD = "apiVersion: sokovan/v1\nkind: Session\n"
WHOLE = f"""\
{HEAD}name: train
type: batch
image: venv:torch
run: python train.py --lr 0.1
environment: {{SEED: 1}}
resources: {{cpu: 8, mem: 64GiB, gpu: 1}}
size: 4
minimum: 2
mounts: ["/a:/b:rw", {{source: /c, target: /d, readOnly: false}}]
ports: [{{name: web, port: 8080}}]
labels: {{team: nlp}}
require: {{zone: a}}
architecture: x86_64
scalingGroup: big
queue: research
group: nlp
priority: 5
topology: hard:rack
dependsOn: [prepare]
startsAt: 2030-01-01T00:00:00Z
timeLimit: 4h
preemptible: false
stopGrace: 30
retry: {{attempts: 5, backoff: 1m, elsewhere: false}}
endsWith: main
toleratesFailures: true
onAgentLost: requeue
"""


def test_every_key_reaches_the_request() -> None:
    assert read_specs(WHOLE, "f.yaml") == [
        SessionBody(
            name="train",
            type="batch",
            image="venv:torch",
            command=["python", "train.py", "--lr", "0.1"],
            environment={"SEED": "1"},
            resources={"cpu": 8, "mem": "64GiB", "cuda.device": 1},
            size=4,
            minimum=2,
            mounts=[
                MountBody(source="/a", target="/b", read_only=False),
                MountBody(source="/c", target="/d", read_only=False),
            ],
            ports=[ServicePortBody(name="web", port=8080)],
            labels={"team": "nlp"},
            require={"zone": "a"},
            architecture="x86_64",
            scaling_group="big",
            queue="research",
            group="nlp",
            priority=5,
            topology="hard:rack",
            depends_on=["prepare"],
            starts_at="2030-01-01T00:00:00Z",
            time_limit="4h",
            preemptible=False,
            stop_grace=30,
            retry=RetryBody(attempts=5, backoff="1m", elsewhere=False),
            ends_with="main",
            tolerates_failures=True,
            on_agent_lost="requeue",
        )
    ]


def test_every_field_of_a_request_has_a_key() -> None:
    wire = {one.wire for one in SESSION_FIELDS.values() if one.wire}
    assert wire == set(SessionBody.__dataclass_fields__) - {"__pydantic_config__"}


def test_groups_have_keys_of_their_own() -> None:
    text = f"""\
{HEAD}groups:
- {{name: ps, size: 1, command: [serve], priority: 5, nominated: gpu1}}
- {{name: workers, size: 3, minimum: 2, run: work, resources: {{gpu: 1}}, labels: {{replica: a}}}}
partitions: [{{name: replicas, by: replica, size: 3, minGroups: 1, topology: "hard:rack"}}]
preemption: never
booking: demo
borrow: true
migratable: true
checkpoint: 10m
deadline: 2030-01-31T18:00:00Z
"""
    [body] = read_specs(text, "f")
    assert body.groups == [
        KernelGroupBody(name="ps", size=1, command=["serve"], priority=5, nominated="gpu1"),
        KernelGroupBody(
            name="workers", size=3, minimum=2, command=["work"], resources={"cuda.device": 1}, labels={"replica": "a"}
        ),
    ]
    assert body.partitions == [PartitionBody(name="replicas", by="replica", size=3, min_groups=1, topology="hard:rack")]
    assert body.preemption == "never"
    assert (body.booking, body.deadline, body.borrow) == ("demo", "2030-01-31T18:00:00Z", True)
    assert (body.migratable, body.checkpoint) == (True, "10m")


def test_several_documents_are_several_sessions() -> None:
    assert [body.name for body in read_specs(f"{HEAD}name: a\n---\n{HEAD}name: b\n", "f")] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("- a\n", "f:1:1: a session must be a mapping"),
        ("kind: Session\n", "needs the key 'apiVersion'"),
        ("apiVersion: sokovan/v1\n", "needs the key 'kind'"),
        ("apiVersion: sokovan/v2\nkind: Session\n", "f:1:13: 'sokovan/v2' is none of sokovan/v1"),
        ("apiVersion: sokovan/v1\nkind: Deployment\n", "f:2:7: this document is a deployment"),
        (f"{HEAD}tiemLimit: 4h\n", "f:3:1: a session has no key 'tiemLimit'; did you mean 'timeLimit'?"),
        (f"{HEAD}size: four\n", "f:3:7: expected a whole number, not 'four'"),
        (f"{HEAD}run: echo 'x\n", "cannot be split into arguments"),
        (f"{HEAD}run: a\ncommand: [b]\n", "f:4:1: run and command mean the same"),
        (f"{HEAD}command: a b\n", "f:3:10: expected a list of strings"),
        (f"{HEAD}mounts: [/a]\n", "f:3:10: '/a' is not a mount"),
        (f"{HEAD}mounts: [{{source: /a}}]\n", "a mount needs the key 'target'"),
        (f"{HEAD}mounts: /a:/b\n", "expected a list of mounts"),
        (f"{HEAD}ports: 8080\n", "expected a list of service ports"),
        (f"{HEAD}ports: [{{port: 8080}}]\n", "a service port needs the key 'name'"),
        (f"{HEAD}groups: [{{size: 1}}]\n", "a kernel group needs the key 'name'"),
        (f"{HEAD}groups: {{name: a}}\n", "expected a list of kernel groups"),
        (f"{HEAD}groups: [{{name: a, queue: b}}]\n", "a kernel group has no key 'queue'"),
        (f"{HEAD}partitions: [{{name: a}}]\n", "a partition needs the key 'by'"),
        (f"{HEAD}partitions: [{{name: a, by: b, topologi: soft}}]\n", "did you mean 'topology'?"),
        (f"{HEAD}preemption: sometimes\n", "'sometimes' is none of always, never"),
        (f"{HEAD}resources: [1]\n", "expected a mapping, not a list"),
        (f"{HEAD}type: bach\n", "did you mean 'batch'?"),
    ],
)
def test_an_invalid_spec_is_refused_with_its_position(text: str, message: str) -> None:
    with pytest.raises(InvalidSpecFile) as raised:
        read_specs(text, "f")
    assert message in raised.value.message
    assert raised.value.hint


@pytest.mark.slow
def test_a_heap_of_documents_is_refused() -> None:
    with pytest.raises(InvalidSpecFile, match="more than 1000"):
        read_specs("---\na: 1\n" * 1001, "f")
