"""`sokovan help`: what belongs to no single command."""

from __future__ import annotations

from collections.abc import Callable

from sokovan.cli.catalogue import COMMANDS, NOUNS, overview
from sokovan.cli.exit_codes import MEANINGS, OK
from sokovan.cli.output import say, table
from sokovan.cli.rendering import FORMATS
from sokovan.sdk.errors import InvalidSetting
from sokovan.sdk.settings import VARIABLES

_OTHER_VARIABLES = {
    "SOKOVAN_DEBUG": "print a traceback with every error",
    "SOKOVAN_STORE": "the store for audit and db",
    "XDG_CONFIG_HOME": "where the client's file is: sokovan/config.toml under it, else under ~/.config",
    "XDG_DATA_HOME": "where sokovan up keeps its state: sokovan/ under it, else under ~/.local/share",
    "HTTPS_PROXY, SSL_CERT_FILE": "as for every other program; never for a server on this machine",
}


def help_topic(topic: str | None = None, /) -> int:
    """Read about a topic: exit codes, environment, formats, specs.

    For example:
      sokovan help
      sokovan help exit-codes

    Parameters
    ----------
    topic
        exit-codes, environment, formatting or spec; or a command.
    """
    if topic is None:
        say(overview())
        say(f"\nTopics: {', '.join(TOPICS)}; sokovan help TOPIC")
        return OK
    if topic in COMMANDS or topic in NOUNS:
        say(f"see sokovan {topic} --help")
        return OK
    if topic not in TOPICS:
        raise InvalidSetting(f"there is no topic {topic[:60]!r}", hint=f"the topics are {', '.join(TOPICS)}")
    say(TOPICS[topic]())
    return OK


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
            "--columns      only these columns of a table or csv: --columns name,state",
            "--utc          times as they are (RFC 3339), not how long ago",
            "Keys of JSON and YAML are the names of the API. wide and csv have every column.",
        ]
    )


def spec() -> str:
    """The keys of a spec."""
    from sokovan.sdk.spec.session_spec import SESSION_FIELDS  # noqa: PLC0415  # YAML loads only here

    rows = [(key, one.meaning) for key, one in SESSION_FIELDS.items()]
    return "A spec is YAML; several documents may stand in one file.\n\n" + table(("KEY", "MEANING"), rows)


TOPICS: dict[str, Callable[[], str]] = {
    "exit-codes": exit_codes,
    "environment": environment,
    "formatting": formatting,
    "spec": spec,
}
