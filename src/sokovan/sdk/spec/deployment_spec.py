"""Deployment specs: the keys of the file and their fields in the request.

Example:
    apiVersion: sokovan/v1
    kind: Deployment
    name: qwen
    engine: vllm
    model: Qwen/Qwen3-8B
    resources: {gpu: 1}
    replicas: 2
    rollout: {strategy: canary}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sokovan.sdk.errors import InvalidSpecFile
from sokovan.sdk.spec import fields
from sokovan.sdk.spec.fields import Field, schema_of
from sokovan.sdk.spec.session_spec import (
    SESSION_FIELDS,
    SPECS_MAX,
    chosen,
    given_fields,
    refuse_kind,
)
from sokovan.sdk.spec.spec_document import SpecDocument
from sokovan.sdk.spec.spec_yaml import read_nodes, spec_error
from sokovan.wire.api.deployments import (
    DeploymentBody,
    ProbeBody,
    RequestLimitsBody,
    RevisionBody,
    RolloutBody,
    ScalingBody,
)
from sokovan.yaml_reader import YamlNode

KIND = "Deployment"
REQUIRED = ("apiVersion", "kind", "name", "engine")
_TEXT = {"type": "string"}
_WORDS = {"type": "array", "items": _TEXT}
_COUNT = {"type": "integer", "minimum": 0}
_DURATION = SESSION_FIELDS["timeLimit"].schema
_HINT = "see docs/howto/deployment-files.md for an example"


def _part(body: Callable[..., Any], known: Mapping[str, Field], meaning: str, *, wire: str, what: str) -> Field:
    """A key whose value is a mapping of these keys."""

    def read(node: YamlNode) -> Any:
        return body(**given_fields(node, known, (), what=what))

    return Field(wire, read, schema_of(known, required=()), meaning)


_PROBE = {
    "path": Field("path", fields.text, _TEXT, "path that answers 2xx when a replica is ready; none: a connection"),
    "warmingIntervalMs": Field("warming_interval_ms", fields.number, _COUNT, "time between checks until it is ready"),
    "intervalMs": Field("interval_ms", fields.number, _COUNT, "time between checks after that"),
    "timeoutMs": Field("timeout_ms", fields.number, _COUNT, "time that an answer may take"),
    "smoke": Field("smoke", fields.flag, {"type": "boolean"}, "one token is asked before it serves; default: true"),
}
_LIMITS = {
    "queuedMax": Field("queued_max", fields.number, _COUNT, "requests that wait at most"),
    "queueWaitS": Field("queue_wait_s", fields.number, _COUNT, "seconds that a request waits at most"),
    "coldWaitS": Field("cold_wait_s", fields.number, _COUNT, "seconds that it waits while replicas start from zero"),
}
_SCALING = {
    "metric": Field(
        "metric", *chosen("manual", "concurrency", "qps", "queue", "ttft_p95"), "the measure that the number follows"
    ),
    "target": Field("target", fields.number, _COUNT, "the measure per replica"),
    "stableS": Field("stable_s", fields.number, _COUNT, "seconds over which demand is averaged"),
    "panicS": Field("panic_s", fields.number, _COUNT, "seconds over which a burst is noticed"),
    "panicHoldS": Field("panic_hold_s", fields.number, _COUNT, "seconds without scaling down after a burst"),
    "downS": Field("down_s", fields.number, _COUNT, "seconds whose highest demand is kept"),
    "idleS": Field("idle_s", fields.number, _COUNT, "seconds without a request before scaling to zero"),
}
_ROLLOUT = {
    "strategy": Field("strategy", *chosen("rolling", "blue-green", "canary"), "how an update proceeds"),
    "surge": Field("surge", fields.number, _COUNT, "replicas above the desired number"),
    "unavailable": Field("unavailable", fields.number, _COUNT, "replicas below it"),
    "whenFull": Field(
        "when_full", *chosen("replace", "wait", "fail"), "action if there is no room for additional replicas"
    ),
    "steps": Field(
        "steps",
        fields.list_of(fields.number, what="percentages"),
        {"type": "array", "items": _COUNT},
        "percentages of a canary, rising to 100",
    ),
    "share": Field("share", fields.number, _COUNT, "percentage at which a canary stays until it is promoted"),
    "holdS": Field("hold_s", fields.number, _COUNT, "seconds of each step of a canary"),
    "promoteAfterS": Field("promote_after_s", fields.number, _COUNT, "seconds until a promotion without a request"),
    "analysis": Field(
        "analysis", fields.flag, {"type": "boolean"}, "roll back if requests fail more, or take longer; default: true"
    ),
    "keepS": Field("keep_s", fields.number, _COUNT, "seconds that the old replicas of blue-green are kept"),
}

REVISION_FIELDS: Mapping[str, Field] = {
    "engine": Field("engine", fields.text, _TEXT, "vllm, sglang, llama-cpp, transformers, custom, toy, ..."),
    "model": Field("model", fields.text, _TEXT, "a name on a hub, or the path of a model"),
    "arguments": Field("arguments", fields.words, _WORDS, "further arguments of the engine"),
    **{
        name: SESSION_FIELDS[name]
        for name in ("run", "command", "image", "environment", "secrets", "resources", "size")
    },
    "mounts": SESSION_FIELDS["mounts"],
    "probe": _part(ProbeBody, _PROBE, "how a replica is checked", wire="probe", what="a probe"),
    "startupTimeout": Field("startup_timeout", fields.duration, _DURATION, "time to get ready: 30m"),
    "drainTimeout": Field("drain_timeout", fields.duration, _DURATION, "time for running requests before the end"),
    "concurrency": Field("concurrency_max", fields.number, _COUNT, "requests that a replica takes at once"),
    "limits": _part(RequestLimitsBody, _LIMITS, "how many requests wait, and how long", wire="limits", what="limits"),
}
DEPLOYMENT_FIELDS: Mapping[str, Field] = {
    "apiVersion": SESSION_FIELDS["apiVersion"],
    "kind": Field("", *chosen(KIND), "what this document describes"),
    "name": Field("name", fields.text, _TEXT, "name of the deployment, unique in its group"),
    **REVISION_FIELDS,
    "modelNames": Field("model_names", fields.words, _WORDS, "model names that it answers to; default: its name"),
    "access": Field("access", *chosen("private", "project", "public"), "whose keys may use it"),
    "replicas": Field("replicas_min", fields.number, _COUNT, "number of replicas, or the least with maxReplicas"),
    "maxReplicas": Field("replicas_max", fields.number, _COUNT, "most replicas; then their number follows demand"),
    "scaling": _part(ScalingBody, _SCALING, "how the number follows demand", wire="scaling", what="scaling"),
    "rollout": _part(RolloutBody, _ROLLOUT, "how updates proceed", wire="rollout", what="a rollout"),
    "routing": Field("routing", *chosen("least-load", "prefix", "sticky", "round-robin"), "how a replica is chosen"),
    "stickyBy": Field("sticky_by", fields.text, _TEXT, "how sticky knows a session: header:NAME or cookie:NAME"),
    **{name: SESSION_FIELDS[name] for name in ("scalingGroup", "queue", "group", "priority")},
}


def read_deployment_documents(text: str, file: str) -> list[SpecDocument[DeploymentBody]]:
    """The deployments of a file, each with its document. Raises InvalidSpecFile."""
    try:
        return _documents(read_nodes(text, file), file)
    except InvalidSpecFile as error:
        if error.hint == InvalidSpecFile.hint:  # that of session files
            error.hint = _HINT
        raise


def _documents(nodes: list[YamlNode], file: str) -> list[SpecDocument[DeploymentBody]]:
    if not nodes:
        raise InvalidSpecFile(f"{file}: the file is empty", hint=_HINT)
    if len(nodes) > SPECS_MAX:
        raise InvalidSpecFile(f"{file}: the file has more than {SPECS_MAX} documents")
    documents = [SpecDocument(_deployment(node), node) for node in nodes]
    seen: set[tuple[str, str | None]] = set()
    for document in documents:
        name = document.body.name, document.body.group
        if name in seen:
            problem = f"the deployment {name[0][:60]!r} is given twice"
            raise spec_error(document.position(("name",)), problem)
        seen.add(name)
    return documents


def _deployment(node: YamlNode) -> DeploymentBody:
    refuse_kind(node, "Session", hint="use sokovan run -f FILE for sessions")
    given = given_fields(node, DEPLOYMENT_FIELDS, REQUIRED, what="a deployment")
    revision = {one.wire: given.pop(one.wire) for one in REVISION_FIELDS.values() if one.wire in given}
    if given.get("replicas_max") is not None:
        given.setdefault("scaling", ScalingBody(metric="concurrency"))
    return DeploymentBody(revision=RevisionBody(**revision), **given)
