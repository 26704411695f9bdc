"""`sokovan context`: the servers this client knows."""

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
class KnownContext:
    """A context as it is shown: never with its key."""

    name: str
    url: str
    current: bool
    has_token: bool


COLUMNS: list[Column[KnownContext]] = [
    Column("name", lambda one: one.name),
    Column("current", lambda one: "*" if one.current else ""),
    Column("url", lambda one: one.url),
    Column("key", lambda one: "yes" if one.has_token else "no"),
]


def ls(*, shown: OutputOptions = TABLE_OUTPUT) -> int:
    """List the servers this client knows.

    For example:
      sokovan context ls
      sokovan context ls --json
    """
    form, known = shown.form(), read_config(config_path())
    contexts = [
        KnownContext(name, one.url, name == known.current, bool(one.token)) for name, one in known.contexts.items()
    ]
    show_all(contexts, COLUMNS, form, name=lambda one: one.name)
    return OK


def use(name: str, /) -> int:
    """Make a server the current one.

    For example:
      sokovan context use local

    Parameters
    ----------
    name
        The name of a context that is known.
    """
    use_context(name)
    print_status(f"context {name} is in use")
    return OK


def add(name: str, url: str, /, *, token_file: str | None = None, keep_current: Flag = False) -> int:
    """Make a server known, with the key for it.

    The key comes from --token-file, from SOKOVAN_TOKEN, or is asked for; it never stands on the command line, where
    others could read it.

    For example:
      sokovan context add lab https://sokovan.example
      sokovan context add lab https://sokovan.example --token-file - < key.txt

    Parameters
    ----------
    name
        A name for it.
    url
        Its address.
    token_file
        A file that holds the key; - is standard input.
    keep_current
        Do not make it the current one.
    """
    save_context(name, url, _token(token_file), make_current=not keep_current)
    print_status(f"context {name} saved in {config_path()}")
    return OK


def remove(name: str, /, *, yes: Yes = False) -> int:
    """Forget a server and its key.

    For example:
      sokovan context rm lab --yes

    Parameters
    ----------
    name
        The name of a context that is known.
    """
    confirm(f"forget context {name} and its key", yes=yes)
    remove_context(name)
    print_status(f"context {name} forgotten")
    return OK


def _token(file: str | None) -> str:
    if file is not None:
        try:
            with Path(file).open(encoding="utf-8") as opened:
                token = opened.read(FILE_MAX).strip()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidSetting(f"cannot read the key from {file}: {error}", hint="check --token-file") from error
    elif os.environ.get("SOKOVAN_TOKEN"):
        token = os.environ["SOKOVAN_TOKEN"]
    elif is_interactive():
        token = getpass.getpass("key: ", stream=sys.stderr).strip()
    else:
        raise InvalidSetting("no key is given", hint="use --token-file FILE, or set SOKOVAN_TOKEN")
    if not is_token(token):
        raise InvalidSetting("this is not a key", hint="a key begins with sk- and is shown when it is made")
    return token
