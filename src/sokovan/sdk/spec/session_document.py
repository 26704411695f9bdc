"""Session specs as documents: the keys of a file for a request.

`read_spec_documents` reads what is written here as the same request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from sokovan.sdk.local_folder import NONE
from sokovan.sdk.spec.fields import Field
from sokovan.sdk.spec.session_spec import (
    API_VERSION,
    GROUP_KEYS,
    KIND,
    MOUNT_KEYS,
    PARTITION_KEYS,
    PORT_KEYS,
    RETRY_KEYS,
    SESSION_FIELDS,
)
from sokovan.wire.api.sessions import SessionBody

# `run` is another form of `command`.
_OTHER_FORMS = frozenset({"run"})
# The keys of values that have keys of their own.
_INNER: Mapping[str, Mapping[str, Field]] = {
    "groups": GROUP_KEYS,
    "partitions": PARTITION_KEYS,
    "mounts": MOUNT_KEYS,
    "ports": PORT_KEYS,
    "retry": RETRY_KEYS,
}


def session_document(body: SessionBody) -> dict[str, Any]:
    """The document of a request, without the values that are defaults.

    A request without a folder says so: otherwise the session would run in the folder of its caller.
    """
    found = {"apiVersion": API_VERSION, "kind": KIND, **_written(body, SESSION_FIELDS)}
    return found if body.workdir or body.upload else {**found, "workdir": NONE}


def _written(item: Any, known: Mapping[str, Field]) -> dict[str, Any]:
    defaults = {one.name: _default(one) for one in fields(item)}
    found: dict[str, Any] = {}
    for key, one in known.items():
        value = getattr(item, one.wire) if one.wire else None
        if not one.wire or key in _OTHER_FORMS or value == defaults[one.wire]:
            continue
        found[key] = _inner(value, _INNER[key]) if key in _INNER else _copied(value)
    return found


def _inner(value: Any, known: Mapping[str, Field]) -> Any:
    return [_written(item, known) for item in value] if isinstance(value, list) else _written(value, known)


def _copied(value: Any) -> Any:
    """The value itself, or a copy: a document refers to none of its parts twice."""
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, list) else value


def _default(one: Any) -> Any:
    return one.default_factory() if one.default_factory is not MISSING else one.default
