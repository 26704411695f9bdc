"""The spec of a session: the keys of its file, and the request it stands for.

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
from sokovan.sdk.spec.places import Node, read_documents
from sokovan.sdk.spec.spec_document import SpecDocument
from sokovan.wire.api.bodies import Amount
from sokovan.wire.api.sessions import KernelGroupBody, MountBody, ServicePortBody, SessionBody

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


def _chosen(*options: str) -> tuple[fields.Read, dict[str, Any]]:
    return fields.one_of(*options), {"enum": list(options)}


def _readable(node: Node, read: Callable[[str], T]) -> T:
    """What a text of the SDK's own forms means; if it means nothing, the error shows its place."""
    try:
        return read(fields.text(node))
    except InvalidSetting as error:
        raise node.place.wrong(error.message, hint=error.hint) from error


def _command(node: Node) -> list[str]:
    return _readable(node, words_of)


def _resources(node: Node) -> dict[str, Amount]:
    return slots_of(fields.amounts(node))


_MOUNT = {
    "source": Field("source", fields.text, _TEXT, "a folder of the machine"),
    "target": Field("target", fields.text, _TEXT, "where the kernels see it"),
    "readOnly": Field("read_only", fields.flag, _FLAG, "whether they may only read it"),
}
_MOUNT_NEEDS = ("source", "target")


def _mount(node: Node) -> MountBody:
    if node.kind == "mapping":
        return MountBody(**_given(node, _MOUNT, _MOUNT_NEEDS, what="a mount"))
    return _readable(node, read_mount)


_PORT = {
    "name": Field("name", fields.text, _TEXT, "what others call it"),
    "port": Field("port", fields.number, {**_NUMBER, "minimum": 1}, "the number it listens at"),
    "protocol": Field("protocol", *_chosen("http", "tcp"), "http or tcp"),
}
_PORT_NEEDS = ("name", "port")


def _port(node: Node) -> ServicePortBody:
    return ServicePortBody(**_given(node, _PORT, _PORT_NEEDS, what="a service port"))


GROUP_FIELDS: Mapping[str, Field] = {
    "name": Field("name", fields.text, _TEXT, "a name of your own"),
    "image": Field("image", fields.text, _TEXT, "host, or venv:NAME"),
    "run": Field("command", _command, _TEXT, "the command as one line; no shell reads it"),
    "command": Field("command", fields.words, _WORDS, "the command as a list of words"),
    "environment": Field("environment", fields.texts, _BY_NAME, "variables of the kernels"),
    "resources": Field("resources", _resources, _BY_NAME, "what each kernel gets: cpu, mem, gpu, ..."),
    "size": Field("size", fields.number, {**_NUMBER, "minimum": 1}, "how many kernels"),
    "minimum": Field("minimum", fields.number, _NUMBER, "how many of them it can start with"),
    "labels": Field("labels", fields.texts, _BY_NAME, "labels of its own"),
    "require": Field("require", fields.texts, _BY_NAME, "labels that a machine must have"),
}
_GROUP_NEEDS = ("name",)


def _group(node: Node) -> KernelGroupBody:
    return KernelGroupBody(**_given(node, GROUP_FIELDS, _GROUP_NEEDS, what="a kernel group"))


SESSION_FIELDS: Mapping[str, Field] = {
    "apiVersion": Field("", *_chosen(API_VERSION), "the version of this format"),
    "kind": Field("", *_chosen(KIND), "what this document describes"),
    **GROUP_FIELDS,
    "type": Field("type", *_chosen(*_TYPES), "interactive, batch, inference or system"),
    "groups": Field(
        "groups",
        fields.list_of(_group, what="kernel groups"),
        {"type": "array", "items": schema_of(GROUP_FIELDS, required=_GROUP_NEEDS)},
        "kernels that are not all alike",
    ),
    "mounts": Field(
        "mounts",
        fields.list_of(_mount, what="mounts"),
        {"type": "array", "items": {"anyOf": [_TEXT, schema_of(_MOUNT, required=_MOUNT_NEEDS)]}},
        "SOURCE:TARGET[:rw]",
    ),
    "ports": Field(
        "ports",
        fields.list_of(_port, what="service ports"),
        {"type": "array", "items": schema_of(_PORT, required=_PORT_NEEDS)},
        "ports that the main kernel serves",
    ),
    "architecture": Field("architecture", fields.text, _TEXT, "x86_64, aarch64, ..."),
    "scalingGroup": Field("scaling_group", fields.text, _TEXT, "the pool of machines"),
    "queue": Field("queue", fields.text, _TEXT, "the queue"),
    "group": Field("group", fields.text, _TEXT, "the project it counts against"),
    "priority": Field("priority", fields.number, _NUMBER, "higher goes first"),
    "topology": Field("topology", fields.text, _TEXT, "hard or soft, with the highest tier: hard:rack"),
    "dependsOn": Field("depends_on", fields.words, _WORDS, "sessions that must succeed first"),
    "startsAt": Field("starts_at", fields.text, _TEXT, "not before this time (RFC 3339)"),
    "timeLimit": Field("time_limit", fields.duration, _DURATION, "how long it may run: 90s, 30m, 4h, 2d"),
    "preemptible": Field("preemptible", fields.flag, _FLAG, "whether others may take its place"),
    "stopGrace": Field("stop_grace", fields.duration, _DURATION, "time between SIGTERM and SIGKILL"),
    "endsWith": Field("ends_with", *_chosen("all", "main", "any"), "which kernels' end is its end"),
    "toleratesFailures": Field("tolerates_failures", fields.flag, _FLAG, "whether it outlives a failed kernel"),
    "onAgentLost": Field("on_agent_lost", *_chosen("end", "requeue"), "what becomes of it without its machine"),
}


REQUIRED = ("apiVersion", "kind")


def read_specs(text: str, file: str) -> list[SessionBody]:
    """Every session of a file, in its order. Raises InvalidSpec."""
    return [spec.body for spec in read_spec_documents(text, file)]


def read_spec_documents(text: str, file: str) -> list[SpecDocument]:
    """Every session of a file, each with its document. Raises InvalidSpec."""
    documents = read_documents(text, file)
    if not documents:
        raise InvalidSpecFile(f"{file}: there is nothing in it", hint="sokovan init NAME writes a spec to begin with")
    if len(documents) > SPECS_MAX:
        raise InvalidSpecFile(f"{file}: it holds more than {SPECS_MAX} documents")
    return [SpecDocument(_session(node), node) for node in documents]


def _session(node: Node) -> SessionBody:
    return SessionBody(**_given(node, SESSION_FIELDS, REQUIRED, what="a session"))


def _given(node: Node, known: Mapping[str, Field], needed: tuple[str, ...], *, what: str) -> dict[str, Any]:
    """The fields of the wire that a mapping says, all that is needed among them."""
    entries = fields.entries_of(node, known, what=what)
    for key in needed:
        if key not in entries:
            raise node.place.wrong(f"{what} needs the key {key!r}", hint=_example(key))
    if "run" in entries and "command" in entries:
        raise entries["command"].named_at.wrong("run and command say the same thing; keep one of them")
    values = {key: known[key].read(value) for key, value in entries.items()}
    return {known[key].wire: value for key, value in values.items() if known[key].wire}


def _example(key: str) -> str:
    return {"apiVersion": f"write apiVersion: {API_VERSION}", "kind": f"write kind: {KIND}"}.get(key, "")
