"""The spec of a session: the keys of its file, and the request it stands for.

apiVersion: sokovan/v1
kind: Session
name: train
resources: {cpu: 8, mem: 64GiB, gpu: 1}
run: python train.py
timeLimit: 4h
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sokovan.sdk.errors import InvalidSetting, InvalidSpec
from sokovan.sdk.requesting import read_mount, slots_of, words_of
from sokovan.sdk.spec import fields
from sokovan.sdk.spec.fields import Field
from sokovan.sdk.spec.places import Node, Place, read_documents
from sokovan.wire.api.sessions import KernelGroupBody, MountBody, ServicePortBody, SessionBody

API_VERSION = "sokovan/v1"
KIND = "Session"
SPECS_MAX = 1000

_TEXT = {"type": "string"}
_WORDS = {"type": "array", "items": _TEXT}
_TEXTS = {"type": "object", "additionalProperties": {"type": ["string", "number"]}}
_AMOUNTS = {"type": "object", "additionalProperties": {"type": ["string", "number"]}}
_NUMBER = {"type": "integer"}
_FLAG = {"type": "boolean"}
_DURATION = {"type": ["integer", "string"], "pattern": "^([0-9]+[smhd])+$|^[0-9]+$"}
_TYPES = ("interactive", "batch", "inference", "system")


def _chosen(*options: str) -> tuple[fields.Read, dict[str, Any]]:
    return fields.one_of(*options), {"enum": list(options)}


def _command(node: Node) -> list[str]:
    try:
        return words_of(fields.text(node))
    except InvalidSetting as error:
        raise node.place.wrong(error.message, hint=error.hint) from error


def _resources(node: Node) -> dict[str, int | float | str]:
    return slots_of(fields.amounts(node))


_MOUNT = {
    "source": Field("source", fields.text, _TEXT, "a folder of the machine"),
    "target": Field("target", fields.text, _TEXT, "where the kernels see it"),
    "readOnly": Field("read_only", fields.flag, _FLAG, "whether they may only read it"),
}


def _mounts(node: Node) -> list[MountBody]:
    if node.kind != "list":
        raise node.place.wrong(f"a list of mounts belongs here, not {node.described}")
    return [_mount(item) for item in node.items]


def _mount(node: Node) -> MountBody:
    if node.kind == "mapping":
        return MountBody(**_required(node, _MOUNT, ("source", "target"), what="a mount"))
    try:
        return read_mount(fields.text(node))
    except InvalidSetting as error:
        raise node.place.wrong(error.message, hint=error.hint) from error


_PORT = {
    "name": Field("name", fields.text, _TEXT, "what others call it"),
    "port": Field("port", fields.number, {**_NUMBER, "minimum": 1}, "the number it listens at"),
    "protocol": Field("protocol", *_chosen("http", "tcp"), "http or tcp"),
}


def _ports(node: Node) -> list[ServicePortBody]:
    if node.kind != "list":
        raise node.place.wrong(f"a list of service ports belongs here, not {node.described}")
    return [ServicePortBody(**_required(item, _PORT, ("name", "port"), what="a service port")) for item in node.items]


_SHARED = {
    "name": Field("name", fields.text, _TEXT, "a name of your own"),
    "image": Field("image", fields.text, _TEXT, "host, or venv:NAME"),
    "run": Field("command", _command, _TEXT, "the command as one line; no shell reads it"),
    "command": Field("command", fields.words, _WORDS, "the command as a list of words"),
    "environment": Field("environment", fields.texts, _TEXTS, "variables of the kernels"),
    "resources": Field("resources", _resources, _AMOUNTS, "what each kernel gets: cpu, mem, gpu, ..."),
    "size": Field("size", fields.number, {**_NUMBER, "minimum": 1}, "how many kernels"),
    "minimum": Field("minimum", fields.number, _NUMBER, "how many of them it can start with"),
    "labels": Field("labels", fields.texts, _TEXTS, "labels of its own"),
    "require": Field("require", fields.texts, _TEXTS, "labels that a machine must have"),
}
GROUP_FIELDS: Mapping[str, Field] = _SHARED


def _groups(node: Node) -> list[KernelGroupBody]:
    if node.kind != "list":
        raise node.place.wrong(f"a list of kernel groups belongs here, not {node.described}")
    return [KernelGroupBody(**_required(item, GROUP_FIELDS, ("name",), what="a kernel group")) for item in node.items]


_GROUP_SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name"],
    "properties": {key: {**one.schema, "description": one.meaning} for key, one in GROUP_FIELDS.items()},
}
_MOUNT_SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["source", "target"],
    "properties": {key: {**one.schema, "description": one.meaning} for key, one in _MOUNT.items()},
}

_PORT_SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name", "port"],
    "properties": {key: {**one.schema, "description": one.meaning} for key, one in _PORT.items()},
}

SESSION_FIELDS: Mapping[str, Field] = {
    "apiVersion": Field("", *_chosen(API_VERSION), "the version of this format"),
    "kind": Field("", *_chosen(KIND), "what this document describes"),
    **_SHARED,
    "type": Field("type", *_chosen(*_TYPES), "interactive, batch, inference or system"),
    "groups": Field("groups", _groups, {"type": "array", "items": _GROUP_SCHEMA}, "kernels that are not all alike"),
    "mounts": Field(
        "mounts", _mounts, {"type": "array", "items": {"anyOf": [_TEXT, _MOUNT_SCHEMA]}}, "SOURCE:TARGET[:rw]"
    ),
    "ports": Field("ports", _ports, {"type": "array", "items": _PORT_SCHEMA}, "ports that the main kernel serves"),
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


def read_specs(text: str, file: str) -> list[SessionBody]:
    """Every session of a file, in its order. Raises InvalidSpec."""
    documents = read_documents(text, file)
    if not documents:
        raise InvalidSpec(f"{file}: there is nothing in it", hint="sokovan init NAME writes a spec to begin with")
    if len(documents) > SPECS_MAX:
        raise InvalidSpec(f"{file}: it holds more than {SPECS_MAX} documents")
    return [_session(node) for node in documents]


def _session(node: Node) -> SessionBody:
    given = _required(node, SESSION_FIELDS, ("apiVersion", "kind"), what="a session")
    return SessionBody(**given)


def _required(node: Node, known: Mapping[str, Field], needed: tuple[str, ...], *, what: str) -> dict[str, Any]:
    entries = fields.entries_of(node, known, what=what)
    for key in needed:
        if key not in entries:
            raise node.place.wrong(f"{what} needs the key {key!r}", hint=_example(key))
    if "run" in entries and "command" in entries:
        raise _at(entries["command"]).wrong("run and command say the same thing; keep one of them")
    values = {key: known[key].read(value) for key, value in entries.items()}
    return {known[key].wire: value for key, value in values.items() if known[key].wire}


def _example(key: str) -> str:
    return {"apiVersion": f"write apiVersion: {API_VERSION}", "kind": f"write kind: {KIND}"}.get(key, "")


def _at(node: Node) -> Place:
    return node.key_place or node.place
