"""Names and ids, each of its own type."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NewType

from sokovan.domain.errors import InvalidName, InvalidSpec

AgentId = NewType("AgentId", str)
SessionId = NewType("SessionId", str)
KernelId = NewType("KernelId", str)
ArrayId = NewType("ArrayId", str)
DeploymentId = NewType("DeploymentId", str)
RouteId = NewType("RouteId", str)
ReplicaId = NewType("ReplicaId", str)
EndpointTokenId = NewType("EndpointTokenId", str)
QueueName = NewType("QueueName", str)
ScalingGroupName = NewType("ScalingGroupName", str)
AccessKey = NewType("AccessKey", str)

DEFAULT_QUEUE = QueueName("default")
DEFAULT_SCALING_GROUP = ScalingGroupName("default")
ARCHITECTURE_DEFAULT = "x86_64"

# Wide enough for host names, image references and e-mail-like user names; narrow enough for a URL path and a log.
# Of a whole text, for the description of the API too.
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._\-/:@+]{0,127}$"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)
_NAME = re.compile(NAME_PATTERN.strip("^$"), re.ASCII)


def is_name(text: object) -> bool:
    """Whether `text` may name an object."""
    return isinstance(text, str) and _NAME.fullmatch(text) is not None


def checked_name(text: object, *, what: str) -> str:
    """Return `text` if it is a valid name. Raises InvalidName."""
    if not isinstance(text, str) or not is_name(text):
        raise InvalidName(what=what, name=text)
    return text


def require_digests(digests: object, *, what: str) -> None:
    """Refuse a malformed mapping of images to digests. Raises InvalidSpec."""
    if not isinstance(digests, Mapping):
        raise InvalidSpec(what=what, field="digest", value=digests, problem="must be a mapping of images to digests")
    for value in digests.values():
        if not (isinstance(value, str) and _DIGEST.fullmatch(value)):
            problem = "is not sha256: and 64 hexadecimal digits"
            raise InvalidSpec(what=what, field="digest", value=value, problem=problem)
