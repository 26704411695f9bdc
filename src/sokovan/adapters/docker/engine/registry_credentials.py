"""Credentials of image registries: of `docker login`, and of helper programs."""

from __future__ import annotations

import base64
import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sokovan.ports.runtime import ImageUnavailable

# The file in which `docker login` and `podman login --compat-auth-file` keep credentials, or name a helper for them.
CREDENTIALS = Path(".docker/config.json")
CREDENTIALS_BYTES_MAX = 1 << 20
HELPER = "docker-credential-"
HELPER_LIMIT_S = 60.0
_HELPER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_HUB = "https://index.docker.io/v1/"
# The user name with which a helper says that the secret is a token.
_TOKEN = "<token>"  # noqa: S105  # a user name, and no secret
_UNKNOWN = "credentials not found"


def credentials_for(image: str, home: Path) -> dict[str, str]:
    """The header with the credentials of an image's registry.

    Empty if the account has none. A helper for the registry comes first, then the one for all
    of them, then the file. Raises ImageUnavailable if a helper fails.
    """
    first, _, rest = image.partition("/")
    registry = first if rest and ("." in first or ":" in first or first == "localhost") else _HUB
    known = _configuration(home)
    helper = _mapping(known, "credHelpers").get(registry) or known.get("credsStore")
    given = _from_helper(image, str(helper), registry) if helper else None
    given = given or _from_file(_mapping(known, "auths"), registry)
    if not given:
        return {}
    content = json.dumps({**given, "serveraddress": registry}).encode()
    return {"X-Registry-Auth": base64.urlsafe_b64encode(content).decode()}


def _configuration(home: Path) -> Mapping[str, Any]:
    try:
        with (home / CREDENTIALS).open("rb") as file:
            found = json.loads(file.read(CREDENTIALS_BYTES_MAX))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _mapping(known: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = known.get(name)
    return found if isinstance(found, dict) else {}


def _from_file(auths: Mapping[str, Any], registry: str) -> dict[str, str] | None:
    entry = auths.get(registry) or auths.get(f"https://{registry}")
    if not isinstance(entry, dict):
        return None
    try:
        user, _, password = base64.b64decode(str(entry.get("auth") or "")).decode().partition(":")
    except ValueError:
        return None
    return {"username": user, "password": password} if user else None


def _from_helper(image: str, helper: str, registry: str) -> dict[str, str] | None:
    """Ask a helper, as the docker program does; None if it knows nothing of the registry."""
    if not _HELPER_NAME.fullmatch(helper):
        raise _failed(image, helper, "this is no name of a helper")
    try:
        done = subprocess.run(  # noqa: S603  # named in the file of the agent's own account
            [HELPER + helper, "get"], input=registry.encode(), capture_output=True, timeout=HELPER_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _failed(image, helper, str(error)) from error
    if done.returncode:
        said = (done.stdout + done.stderr).decode(errors="replace").strip()
        if _UNKNOWN in said:
            return None
        raise _failed(image, helper, said[:500] or f"it ended with {done.returncode}")
    try:
        found = json.loads(done.stdout)
        user, secret = str(found["Username"]), str(found["Secret"])
    except (ValueError, KeyError, TypeError) as error:
        raise _failed(image, helper, "its answer is no user and secret") from error
    return {"identitytoken": secret} if user == _TOKEN else {"username": user, "password": secret}


def _failed(image: str, helper: str, problem: str) -> ImageUnavailable:
    return ImageUnavailable(image=image, problem=f"{HELPER}{helper[:80]} gave no credentials: {problem}")
