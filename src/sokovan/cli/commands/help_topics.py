"""`sokovan help`: what belongs to no single command."""

from __future__ import annotations

from collections.abc import Callable

from sokovan.cli.command_table import COMMANDS, NOUNS, TOPICS, first_words, noun_overview, overview
from sokovan.cli.exit_codes import MEANINGS, OK
from sokovan.cli.output import print_data, table
from sokovan.cli.rendering import FORMATS
from sokovan.sdk.errors import InvalidSetting
from sokovan.sdk.settings import VARIABLES

_OTHER_VARIABLES = {
    "SOKOVAN_DEBUG": "1: a traceback with every error; api: a line for every request; 1,api: both",
    "SOKOVAN_STORE": "the store for audit and db",
    "XDG_CONFIG_HOME": "where the client's file is: sokovan/config.toml under it, else under ~/.config",
    "XDG_DATA_HOME": "where sokovan up keeps its state: sokovan/ under it, else under ~/.local/share",
    "HTTPS_PROXY, SSL_CERT_FILE": "as for every other program; never for a server on this machine",
}


def help_topic(*words: str) -> int:
    """Read about a topic: exit codes, environment, formats, specs.

    For example:
      sokovan help
      sokovan help exit-codes
      sokovan help session show

    Parameters
    ----------
    words
        exit-codes, environment, formatting or spec; or a command.
    """
    topic = " ".join(words)
    if topic in COMMANDS:
        from sokovan.cli.app import run_command  # noqa: PLC0415  # a topic has no need of the parser

        return run_command([*words, "--help"])
    if not topic:
        print_data(f"{overview()}\n\nTopics: {', '.join(TOPICS)}; sokovan help TOPIC")
    elif topic in NOUNS:
        print_data(noun_overview(topic))
    elif topic in TOPICS:
        print_data(_PAGES[topic]())
    else:
        raise _no_topic(topic)
    return OK


def _no_topic(topic: str) -> InvalidSetting:
    from difflib import get_close_matches  # noqa: PLC0415  # only for those who mistype

    close = get_close_matches(topic, [*TOPICS, *first_words()], n=1)
    told = f"; did you mean {close[0]!r}?" if close else ""
    return InvalidSetting(f"there is no topic {topic[:60]!r}{told}", hint=f"the topics are {', '.join(TOPICS)}")


def exit_codes() -> str:
    """The exit codes and what they mean."""
    return table(("CODE", "MEANING"), [(str(code), meaning) for code, meaning in MEANINGS.items()])


def environment() -> str:
    """The variables that are read."""
    own = [(variable, f"{name.replace('_', ' ')}; a flag wins over it") for name, variable in VARIABLES.items()]
    return table(("VARIABLE", "MEANING"), [*own, *_OTHER_VARIABLES.items()])


def formatting() -> str:
    """The formats of output."""
    return "\n".join(
        [
            "Data goes to standard output, talk to standard error. An empty list is [], never prose.",
            f"-o, --output   {', '.join(FORMATS)}; the default is table, or what SOKOVAN_OUTPUT says",
            "--json         the same as -o json; errors are then one object on standard error",
            "--columns      only these columns of a table or csv, or facts of one object: --columns name,state",
            "--utc          times as they are (RFC 3339), not how long ago",
            "Keys of JSON and YAML are the names of the API. wide and csv have every column.",
        ]
    )


def spec() -> str:
    """The keys of a spec."""
    from sokovan.sdk.spec.session_spec import SESSION_FIELDS  # noqa: PLC0415  # YAML loads only here

    rows = [(key, one.meaning) for key, one in SESSION_FIELDS.items()]
    return "A spec is YAML; several documents may stand in one file.\n\n" + table(("KEY", "MEANING"), rows)


_PAGES: dict[str, Callable[[], str]] = {
    "exit-codes": exit_codes,
    "environment": environment,
    "formatting": formatting,
    "spec": spec,
}
