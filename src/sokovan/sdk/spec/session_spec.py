"""Session specs: the keys of the file and their fields in the request.

Example:
    apiVersion: sokovan/v1
    kind: Session
    name: train
    resources: {cpu: 8, mem: 64GiB, gpu: 1}
    run: python train.py
    timeLimit: 4h
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from sokovan.sdk.errors import InvalidSetting, InvalidSpecFile
from sokovan.sdk.session_request import read_mount, slots_of, words_of
from sokovan.sdk.spec import fields
from sokovan.sdk.spec.fields import Field, schema_of
from sokovan.sdk.spec.spec_document import SpecDocument
from sokovan.sdk.spec.spec_yaml import read_nodes, spec_error
from sokovan.wire.api.bodies import Amount
from sokovan.wire.api.sessions import KernelGroupBody, MountBody, PartitionBody, RetryBody, ServicePortBody, SessionBody
from sokovan.yaml_reader import YamlNode

T = TypeVar("T")

API_VERSION = "sokovan/v1"
KIND = "Session"
SPECS_MAX = 1000

_TEXT = {"type": "string"}
_WORDS = {"type": "array", "items": _TEXT}
_BY_NAME = {"type": "object", "additionalProperties": {"type": ["string", "number"]}}
_NUMBER = {"type": "integer"}
_FLAG = {"type": "boolean"}
_DURATION = {"type": ["integer", "string"], "pattern": "^([0-9]+[smhd])+$|^[0-9]+$"}
_TYPES = ("interactive", "batch", "inference", "system")


def chosen(*options: str) -> tuple[fields.Read, dict[str, Any]]:
    """The reader and the schema of one of these strings."""
    return fields.one_of(*options), {"enum": list(options)}


def _parsed(node: YamlNode, read: Callable[[str], T]) -> T:
    """Parse a string; an error shows its position in the file."""
    try:
        return read(fields.text(node))
    except InvalidSetting as error:
        raise spec_error(node.position, error.message, hint=error.hint) from error


def _command(node: YamlNode) -> list[str]:
    return _parsed(node, words_of)


def _resources(node: YamlNode) -> dict[str, Amount]:
    return slots_of(fields.amounts(node))


MOUNT_KEYS = {
    "source": Field("source", fields.text, _TEXT, "a folder of the agent"),
    "target": Field("target", fields.text, _TEXT, "where the kernels see it"),
    "readOnly": Field("read_only", fields.flag, _FLAG, "mount it read-only"),
}
_MOUNT_NEEDS = ("source", "target")


def _mount(node: YamlNode) -> MountBody:
    if node.kind == "mapping":
        return MountBody(**given_fields(node, MOUNT_KEYS, _MOUNT_NEEDS, what="a mount"))
    return _parsed(node, read_mount)


PORT_KEYS = {
    "name": Field("name", fields.text, _TEXT, "name of the service"),
    "port": Field("port", fields.number, {**_NUMBER, "minimum": 1}, "port number; any free port if not given"),
    "protocol": Field("protocol", *chosen("http", "tcp"), "http or tcp"),
}
_PORT_NEEDS = ("name",)


def _port(node: YamlNode) -> ServicePortBody:
    return ServicePortBody(**given_fields(node, PORT_KEYS, _PORT_NEEDS, what="a service port"))


RETRY_KEYS = {
    "attempts": Field("attempts", fields.number, {**_NUMBER, "minimum": 1}, "number of attempts, the first included"),
    "backoff": Field("backoff", fields.duration, _DURATION, "how long to avoid an agent that failed; doubles"),
    "elsewhere": Field("elsewhere", fields.flag, _FLAG, "try other agents at once"),
}


def _retry(node: YamlNode) -> RetryBody:
    return RetryBody(**given_fields(node, RETRY_KEYS, (), what="a retry policy"))


GROUP_FIELDS: Mapping[str, Field] = {
    "name": Field("name", fields.text, _TEXT, "name of the session or kernel group"),
    "image": Field("image", fields.text, _TEXT, "host, venv:NAME or a container image"),
    "run": Field("command", _command, _TEXT, "the command as one line, split without a shell"),
    "command": Field("command", fields.words, _WORDS, "the command as a list of arguments"),
    "environment": Field("environment", fields.texts, _BY_NAME, "environment variables of the kernels"),
    "resources": Field("resources", _resources, _BY_NAME, "resources of each kernel: cpu, mem, gpu, ..."),
    "size": Field("size", fields.number, {**_NUMBER, "minimum": 1}, "number of kernels"),
    "minimum": Field("minimum", fields.number, _NUMBER, "least number of kernels to start with"),
    "labels": Field("labels", fields.texts, _BY_NAME, "labels of the kernels"),
    "require": Field("require", fields.texts, _BY_NAME, "labels that an agent must have"),
    "nominated": Field("nominated", fields.text, _TEXT, "agent that is preferred if it has room"),
}
_GROUP_NEEDS = ("name",)
# All keys of a group; those above a session without groups has too.
GROUP_KEYS: Mapping[str, Field] = {
    **GROUP_FIELDS,
    "priority": Field("priority", fields.number, _NUMBER, "kernels with a higher priority are placed first"),
}
PARTITION_KEYS = {
    "name": Field("name", fields.text, _TEXT, "name of the partition"),
    "by": Field("by", fields.text, _TEXT, "label of kernel groups; equal values form a part"),
    "size": Field("size", fields.number, {**_NUMBER, "minimum": 1}, "kernels that make a part ready"),
    "minGroups": Field("min_groups", fields.number, _NUMBER, "ready parts that the session needs to start"),
    "topology": Field("topology", fields.text, _TEXT, "closeness of each part: hard or soft, with the highest tier"),
}
_PARTITION_NEEDS = ("name", "by")


def _partition(node: YamlNode) -> PartitionBody:
    return PartitionBody(**given_fields(node, PARTITION_KEYS, _PARTITION_NEEDS, what="a partition"))


def _group(node: YamlNode) -> KernelGroupBody:
    return KernelGroupBody(**given_fields(node, GROUP_KEYS, _GROUP_NEEDS, what="a kernel group"))


SESSION_FIELDS: Mapping[str, Field] = {
    "apiVersion": Field("", *chosen(API_VERSION), "the version of this format"),
    "kind": Field("", *chosen(KIND), "what this document describes"),
    **GROUP_FIELDS,
    "labels": Field("labels", fields.texts, _BY_NAME, "labels of the session, to find it by"),
    "secrets": Field("secrets", fields.texts, _BY_NAME, "variables of all kernels, stored encrypted, never shown"),
    "type": Field("type", *chosen(*_TYPES), "interactive, batch, inference or system"),
    "groups": Field(
        "groups",
        fields.list_of(_group, what="kernel groups"),
        {"type": "array", "items": schema_of(GROUP_KEYS, required=_GROUP_NEEDS)},
        "groups of kernels with different settings",
    ),
    "partitions": Field(
        "partitions",
        fields.list_of(_partition, what="partitions"),
        {"type": "array", "items": schema_of(PARTITION_KEYS, required=_PARTITION_NEEDS)},
        "kernels by label, each part placed together",
    ),
    "mounts": Field(
        "mounts",
        fields.list_of(_mount, what="mounts"),
        {"type": "array", "items": {"anyOf": [_TEXT, schema_of(MOUNT_KEYS, required=_MOUNT_NEEDS)]}},
        "SOURCE:TARGET[:rw]",
    ),
    "workdir": Field("workdir", fields.text, _TEXT, "the folder to work in: beside this file, absolute, or none"),
    "upload": Field("upload", fields.text, _TEXT, "the id of an upload in whose copy the kernels run"),
    "ports": Field(
        "ports",
        fields.list_of(_port, what="service ports"),
        {"type": "array", "items": schema_of(PORT_KEYS, required=_PORT_NEEDS)},
        "ports that the main kernel serves",
    ),
    "where": Field("where", fields.words, _WORDS, "conditions on agent labels: zone in (a, b); nvme exists"),
    "tolerations": Field("tolerations", fields.words, _WORDS, "taints of agents that it may use: KEY or KEY=VALUE"),
    "affinity": Field("affinity", fields.words, _WORDS, "sessions to run near to: app=db within rack"),
    "antiAffinity": Field("anti_affinity", fields.words, _WORDS, "sessions to run apart from: app=db"),
    "architecture": Field("architecture", fields.text, _TEXT, "x86_64, aarch64, ..."),
    "scalingGroup": Field("scaling_group", fields.text, _TEXT, "the scaling group"),
    "queue": Field("queue", fields.text, _TEXT, "the queue"),
    "group": Field("group", fields.text, _TEXT, "the group (project) whose quota it uses"),
    "priority": Field("priority", fields.number, _NUMBER, "higher priorities are scheduled first"),
    "topology": Field("topology", fields.text, _TEXT, "hard or soft, with the highest tier: hard:rack"),
    "dependsOn": Field("depends_on", fields.words, _WORDS, "sessions that must succeed before it starts"),
    "startsAt": Field("starts_at", fields.text, _TEXT, "earliest start (RFC 3339)"),
    "timeLimit": Field("time_limit", fields.duration, _DURATION, "maximum run time: 90s, 30m, 4h, 2d"),
    "idleTimeout": Field(
        "idle_timeout", fields.duration, _DURATION, "time without shell, exec or CPU use that ends it: 30m"
    ),
    "preemptible": Field("preemptible", fields.flag, _FLAG, "whether it may be preempted"),
    "preemption": Field("preemption", *chosen("always", "never"), "whether it may preempt others"),
    "onPreempt": Field("on_preempt", *chosen("end", "requeue"), "end, or requeue it after an eviction"),
    "booking": Field("booking", fields.text, _TEXT, "the booking whose agents it runs on"),
    "deadline": Field("deadline", fields.text, _TEXT, "when it should have ended (RFC 3339)"),
    "checkpoint": Field("checkpoint", fields.duration, _DURATION, "longest time between two saves of the program"),
    "migratable": Field("migratable", fields.flag, _FLAG, "whether it may be moved, so that another session fits"),
    "borrow": Field("borrow", fields.flag, _FLAG, "run on unused guarantees of other queues, until they need them"),
    "stopGrace": Field("stop_grace", fields.duration, _DURATION, "time between SIGTERM and SIGKILL"),
    "endsWith": Field("ends_with", *chosen("all", "main", "any"), "which kernels must end for the session to end"),
    "toleratesFailures": Field("tolerates_failures", fields.flag, _FLAG, "whether it continues after a kernel failed"),
    "array": Field("array", fields.text, _TEXT, "one session per index: 0-999%50, 1,3,7-9, 0-100:10"),
    "retry": Field("retry", _retry, schema_of(RETRY_KEYS, required=()), "attempts to start it, if its agent cannot"),
    "gates": Field("gates", fields.words, _WORDS, "names of gates that hold it until session release opens them"),
    "onAgentLost": Field("on_agent_lost", *chosen("end", "requeue"), "end or requeue it when its agent is lost"),
}


REQUIRED = ("apiVersion", "kind")


def read_spec_documents(text: str, file: str) -> list[SpecDocument[SessionBody]]:
    """The sessions of a file, each with its document. Raises InvalidSpecFile."""
    nodes = read_nodes(text, file)
    if not nodes:
        raise InvalidSpecFile(f"{file}: the file is empty", hint="sokovan init NAME writes a spec to begin with")
    if len(nodes) > SPECS_MAX:
        raise InvalidSpecFile(f"{file}: the file has more than {SPECS_MAX} documents")
    return [SpecDocument(_session(node), node) for node in nodes]


def refuse_kind(node: YamlNode, kind: str, *, hint: str) -> None:
    """Say which command is for a document of another kind. Raises InvalidSpecFile."""
    found = node.entries.get("kind")
    if found is not None and found.text == kind:
        raise spec_error(found.position, f"this document is a {kind.lower()}", hint=hint)


def _session(node: YamlNode) -> SessionBody:
    refuse_kind(node, "Deployment", hint="use sokovan apply -f FILE for deployments")
    return SessionBody(**given_fields(node, SESSION_FIELDS, REQUIRED, what="a session"))


def given_fields(node: YamlNode, known: Mapping[str, Field], needed: tuple[str, ...], *, what: str) -> dict[str, Any]:
    """The wire fields of a mapping, which must have the keys `needed`.

    Raises InvalidSpecFile.
    """
    entries = fields.entries_of(node, known, what=what)
    for key in needed:
        if key not in entries:
            raise spec_error(node.position, f"{what} needs the key {key!r}", hint=_example(key, known[key]))
    if "run" in entries and "command" in entries:
        raise spec_error(entries["command"].key_position, "run and command mean the same; keep one of them")
    values = {key: known[key].read(value) for key, value in entries.items()}
    return {known[key].wire: value for key, value in values.items() if known[key].wire}


def _example(key: str, one: Field) -> str:
    """The line to write, if only one is possible."""
    options = one.schema.get("enum", ())
    return f"write {key}: {options[0]}" if len(options) == 1 else ""
