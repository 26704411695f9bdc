"""A systemd user service that runs `sokovan up`."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from sokovan.domain.errors import SokovanError
from sokovan.entrypoints.background.detached import program
from sokovan.entrypoints.embedded.data_folder import PRIVATE_FILE
from sokovan.entrypoints.settings.setting_sources import FILE_VARIABLE, setting_variables

UNIT = "sokovan.service"
LIMIT_S = 60
# The variables that select the folders of the server and of its context.
PASSED_ON = ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "PATH")

_TEXT = """\
# Written by sokovan up --install-service; sokovan up --uninstall-service removes it.
[Unit]
Description=Sokovan server, agent and database of this user
After=network.target

[Service]
ExecStart={command}
{environment}Restart=on-failure
RestartSec=2
# Kernels outlive the server; the next start adopts them.
KillMode=process
# Allows hard limits of memory and processes for each kernel.
Delegate=yes
TimeoutStopSec=90

[Install]
WantedBy=default.target
"""


class ServiceUnavailable(SokovanError):
    """There is no systemd for this user, or it refused the service."""

    code = "service-unavailable"
    hint = "run the server in the background without systemd: sokovan up --detach"


def unit_path(environment: Mapping[str, str]) -> Path:
    """Path of the unit file: under XDG_CONFIG_HOME, or under ~/.config."""
    folder = Path(environment.get("XDG_CONFIG_HOME", ""))
    base = folder if folder.is_absolute() else Path(environment.get("HOME", "/")) / ".config"
    return base / "systemd" / "user" / UNIT


def unit_text(words: Sequence[str], environment: Mapping[str, str]) -> str:
    """The unit file of `sokovan up` with these options and variables."""
    variables = {
        name: environment[name] for name in (*PASSED_ON, *setting_variables(environment)) if environment.get(name)
    }
    if environment.get(FILE_VARIABLE):
        variables[FILE_VARIABLE] = str(Path(environment[FILE_VARIABLE]).absolute())
    passed_on = [f"Environment={_quoted(f'{name}={value}')}\n" for name, value in variables.items()]
    return _TEXT.format(
        command=" ".join(_quoted(word).replace("$", "$$") for word in program(words)), environment="".join(passed_on)
    )


def install(words: Sequence[str], environment: Mapping[str, str]) -> Path:
    """Write the unit, enable it and start it. Raises ServiceUnavailable.

    Returns its path. If systemd refuses it, the unit is as it was before: absent, or the
    one of an earlier installation.
    """
    path = unit_path(environment)
    systemctl = _systemctl()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        earlier = path.read_bytes() if path.exists() else None
        _replace(path, unit_text(words, environment).encode())
    except OSError as error:
        raise ServiceUnavailable(f"{path}: {error.strerror or error}") from error
    try:
        _call(systemctl, "daemon-reload")
        _call(systemctl, "enable", "--now", UNIT)
    except ServiceUnavailable:
        _restore(path, earlier, systemctl)
        raise
    return path


def uninstall(environment: Mapping[str, str]) -> Path | None:
    """Stop and disable the service and remove its unit; None if there is none."""
    path = unit_path(environment)
    if not path.exists():
        return None
    systemctl = _systemctl()
    _call(systemctl, "disable", "--now", UNIT)
    path.unlink(missing_ok=True)
    _call(systemctl, "daemon-reload")
    return path


def _replace(path: Path, content: bytes) -> None:
    """Write a file whole or not at all; only its owner may read it: a variable may have a password."""
    new = path.with_name(f".{path.name}.new")
    new.touch(PRIVATE_FILE)
    new.chmod(PRIVATE_FILE)
    new.write_bytes(content)
    new.replace(path)


def _restore(path: Path, earlier: bytes | None, systemctl: str) -> None:
    """Bring the unit back to what it was, as far as that is possible."""
    with suppress(OSError, ServiceUnavailable):
        if earlier is None:
            path.unlink(missing_ok=True)
        else:
            _replace(path, earlier)
        _call(systemctl, "daemon-reload")


def _systemctl() -> str:
    found = shutil.which("systemctl")
    if found is None:
        raise ServiceUnavailable("systemctl is not installed, so there are no user services on this machine")
    return found


def _call(systemctl: str, *words: str) -> None:
    try:
        done = subprocess.run(  # noqa: S603  # an argv list, built here
            [systemctl, "--user", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LIMIT_S,
            check=False,
            env=os.environ,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ServiceUnavailable(f"systemctl --user {words[0]} did not run: {error}") from error
    if done.returncode:
        said = " ".join(done.stderr.split())[:500] or f"exit code {done.returncode}"
        raise ServiceUnavailable(f"systemctl --user {words[0]} failed: {said}")


def _quoted(word: str) -> str:
    r"""A word of a unit file: quotes, backslashes, line ends and specifiers are escaped.

    >>> _quoted('a "b" 100%')
    '"a \\"b\\" 100%%"'
    """
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("%", "%%")
    return f'"{escaped}"'
