"""The command, environment and paths of a kernel, validated.

No shell sees these: a command is an argument list, and a string with a NUL or a path with
`..` is rejected on input.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from sokovan.domain.errors import InvalidSpec

ARGUMENTS_MAX = 1_000
COMMAND_BYTES_MAX = 128 << 10
ENVIRONMENT_BYTES_MAX = 64 << 10
PATH_MAX = 1_024
# Top-level folders that are private to a kernel, unless a mount keeps its path.
SCRATCH_FOLDERS = frozenset({"tmp", "var"})
# Set by the system for every kernel; users may not set them.
RESERVED_PREFIX = "SOKOVAN_"

_HIDDEN = "(hidden)"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)


def require_command(command: object, *, what: str) -> None:
    """Require strings without NUL, of bounded size; empty means the image's own."""
    if not isinstance(command, tuple) or not all(isinstance(part, str) for part in command):
        raise InvalidSpec(what=what, field="command", value=command, problem="must be a list of texts")
    if len(command) > ARGUMENTS_MAX or sum(map(_size, command)) > COMMAND_BYTES_MAX:
        problem = f"is more than {ARGUMENTS_MAX} arguments or {COMMAND_BYTES_MAX} bytes"
        raise InvalidSpec(what=what, field="command", value=len(command), problem=problem)
    if not all(map(_is_text, command)) or (command and not command[0]):
        problem = "has a NUL, half a character or an empty program name"
        raise InvalidSpec(what=what, field="command", value=command, problem=problem)


def require_environment(environment: object, *, what: str, field: str = "environment") -> None:
    """Require valid variables of bounded size, none of them set by the system.

    No error quotes the value of a secret.
    """
    is_open = field == "environment"
    if not isinstance(environment, Mapping):
        shown = environment if is_open else _HIDDEN
        raise InvalidSpec(what=what, field=field, value=shown, problem="must be a mapping")
    size = 0
    for name, value in environment.items():
        if not isinstance(name, str) or not _VARIABLE.fullmatch(name) or name.startswith(RESERVED_PREFIX):
            problem = f"is not a name for a variable (letters, digits, _, not {RESERVED_PREFIX}...)"
            raise InvalidSpec(what=what, field=field, value=name, problem=problem)
        if not isinstance(value, str) or not _is_text(value):
            problem = "must be a text without NUL"
            shown = value if is_open else _HIDDEN
            raise InvalidSpec(what=what, field=f"{field}.{name}", value=shown, problem=problem)
        size += len(name) + _size(value)
    if size > ENVIRONMENT_BYTES_MAX:
        problem = f"is more than {ENVIRONMENT_BYTES_MAX} bytes"
        raise InvalidSpec(what=what, field=field, value=size, problem=problem)


def require_secret_names(names: Iterable[str], environments: Iterable[Mapping[str, str]], *, what: str) -> None:
    """Require names of variables that no kernel sets openly as well."""
    require_environment(dict.fromkeys(names, ""), what=what, field="secrets")
    wanted = frozenset(names)
    for environment in environments:
        for name in wanted & environment.keys():
            problem = "is among the open variables as well; give it once"
            raise InvalidSpec(what=what, field="secrets", value=name, problem=problem)


def is_plain_path(path: object) -> bool:
    """Whether it is an absolute path without `..` and control characters."""
    return (
        isinstance(path, str)
        and path.startswith("/")
        and len(path) <= PATH_MAX
        and path.isprintable()
        and not any(part in {".", ".."} for part in path.split("/"))
    )


def _is_text(text: str) -> bool:
    """Whether it can be passed to a program: no NUL, and encodable as UTF-8."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


def _size(text: str) -> int:
    return len(text.encode(errors="surrogatepass"))
