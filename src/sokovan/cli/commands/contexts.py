"""`sokovan context`: servers and their API keys in the client's configuration."""

from __future__ import annotations

import getpass
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from sokovan.cli.commands.options import TABLE_OUTPUT, Flag, OutputOptions, Yes
from sokovan.cli.exit_codes import OK
from sokovan.cli.output import print_status
from sokovan.cli.prompts import confirm, is_interactive
from sokovan.cli.rendering import Column, show_all
from sokovan.sdk.config import config_path, is_token, read_config, remove_context, save_context, use_context
from sokovan.sdk.errors import InvalidSetting

FILE_MAX = 4096


@dataclass(frozen=True, slots=True)
class ContextView:
    """A context without its API key."""

    name: str
    url: str
    current: bool
    has_token: bool


COLUMNS: list[Column[ContextView]] = [
    Column("name", lambda one: one.name),
    Column("current", lambda one: "*" if one.current else ""),
    Column("url", lambda one: one.url),
    Column("key", lambda one: "yes" if one.has_token else "no"),
]


def ls(*, output: OutputOptions = TABLE_OUTPUT) -> int:
    """List contexts.

    For example:
      sokovan context ls
      sokovan context ls --json
    """
    fmt, config = output.format(), read_config(config_path())
    contexts = [
        ContextView(name, one.url, name == config.current, bool(one.token)) for name, one in config.contexts.items()
    ]
    show_all(contexts, COLUMNS, fmt, name=lambda one: one.name)
    return OK


def use(name: str, /) -> int:
    """Set the current context.

    For example:
      sokovan context use local

    Parameters
    ----------
    name
        Name of the context.
    """
    use_context(name)
    print_status(f"switched to context {name}")
    return OK


def add(
    name: str,
    url: str,
    /,
    *,
    token_file: str | None = None,
    ca: Path | None = None,
    keep_current: Flag = False,
) -> int:
    """Add a context.

    The API key is read from --token-file, from SOKOVAN_TOKEN or from a prompt.
    It is never a command line argument, which other users of the machine could
    read.

    For example:
      sokovan context add lab https://sokovan.example
      sokovan context add lab https://sokovan.example --token-file - < key.txt
      sokovan context add lab https://10.0.0.1:7645 --ca authority.pem

    Parameters
    ----------
    name
        Name of the new context.
    url
        URL of the server.
    token_file
        File with the API key; - for stdin.
    ca
        File with the authority of the server's certificate.
    keep_current
        Do not switch to the new context.
    """
    authority = str(_authority(ca)) if ca is not None else ""
    save_context(name, url, _token(token_file), ca=authority, make_current=not keep_current)
    print_status(f"context {name} saved in {config_path()}")
    return OK


def remove(name: str, /, *, yes: Yes = False) -> int:
    """Remove a context and its API key.

    For example:
      sokovan context rm lab --yes

    Parameters
    ----------
    name
        Name of the context.
    """
    confirm(f"remove context {name} and its API key", yes=yes)
    remove_context(name)
    print_status(f"context {name} removed")
    return OK


def _authority(file: Path) -> Path:
    """The file of an authority, as an absolute path. Raises InvalidSetting."""
    if not file.is_file():
        raise InvalidSetting(f"there is no file {file}", hint="copy authority.pem from the keys of a manager")
    return file.absolute()


def _token(file: str | None) -> str:
    if file is not None:
        try:
            with Path(file).open(encoding="utf-8") as opened:
                token = opened.read(FILE_MAX).strip()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidSetting(f"cannot read the API key from {file}: {error}", hint="check --token-file") from error
    elif os.environ.get("SOKOVAN_TOKEN"):
        token = os.environ["SOKOVAN_TOKEN"]
    elif is_interactive():
        token = getpass.getpass("API key: ", stream=sys.stderr).strip()
    else:
        raise InvalidSetting("no API key given", hint="use --token-file FILE, or set SOKOVAN_TOKEN")
    if not is_token(token):
        raise InvalidSetting("not an API key", hint="an API key begins with sk-; sokovan key add prints it")
    return token
