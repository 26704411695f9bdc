"""`sokovan help`: help on commands, and on topics that concern many of them."""

from __future__ import annotations

from collections.abc import Callable

from sokovan.cli.command_table import COMMANDS, NOUNS, TOPICS, first_words, noun_overview, overview
from sokovan.cli.exit_codes import MEANINGS, OK
from sokovan.cli.output import print_data, table
from sokovan.cli.rendering import FORMATS
from sokovan.cli.suggestions import suggested_command
from sokovan.sdk.errors import InvalidSetting

_VARIABLES = {
    "SOKOVAN_CONTEXT": "context to use (--context)",
    "SOKOVAN_URL": "URL of the server (--url)",
    "SOKOVAN_TOKEN": "API key for the server",
    "SOKOVAN_CA": "file with the authority of the server's certificate",
    "SOKOVAN_QUEUE": "queue of new sessions (--queue)",
    "SOKOVAN_IMAGE": "image of new sessions (--image)",
    "SOKOVAN_GROUP": "group of new sessions (--group)",
    "SOKOVAN_SCALING_GROUP": "scaling group of new sessions (--scaling-group)",
    "SOKOVAN_FORMAT": "output format (--output)",
    "SOKOVAN_PLAIN_HTTP": "allow: send the API key to another machine without encryption",
    "SOKOVAN_DEBUG": "1: print tracebacks; api: log requests to the server; 1,api: both",
    "SOKOVAN_STORE": "database URL for audit and db",
    "SOKOVAN_CONFIG": "configuration file of up, server and agent run (--config)",
    "SOKOVAN_SECTION__NAME": "a setting of up and agent run: SOKOVAN_API__PORT=7000",
    "XDG_CONFIG_HOME": "folder of sokovan/config.toml; default: ~/.config",
    "XDG_DATA_HOME": "folder of sokovan/, the state of sokovan up; default: ~/.local/share",
    "HTTPS_PROXY, SSL_CERT_FILE": "proxy and CA certificates; not used for a server on this machine",
}


def help_topic(*words: str) -> int:
    """Show help on a command or topic.

    For example:
      sokovan help
      sokovan help exit-codes
      sokovan help session show

    Parameters
    ----------
    words
        Topic, as listed by sokovan help, or command.
    """
    topic = " ".join(words)
    if topic in COMMANDS:
        from sokovan.cli.app import run_command  # noqa: PLC0415  # topics do not need it

        return run_command([*words, "--help"])
    if not topic:
        print_data(f"{overview()}\n\nTopics: {', '.join(TOPICS)}; sokovan help TOPIC")
    elif topic in NOUNS:
        print_data(noun_overview(topic))
    elif topic in TOPICS:
        print_data(_PAGES[topic]())
    else:
        raise _unknown_topic(topic)
    return OK


def _unknown_topic(topic: str) -> InvalidSetting:
    meant = suggested_command(topic, [*TOPICS, *first_words()])
    suggestion = f"; did you mean {meant!r}?" if meant else ""
    return InvalidSetting(f"unknown topic {topic[:60]!r}{suggestion}", hint=f"the topics are {', '.join(TOPICS)}")


def exit_codes() -> str:
    """The table of exit codes."""
    return table(("CODE", "MEANING"), [(str(code), meaning) for code, meaning in MEANINGS.items()])


def environment() -> str:
    """The table of environment variables."""
    return "Flags take precedence over variables.\n\n" + table(("VARIABLE", "MEANING"), _VARIABLES.items())


def formatting() -> str:
    """The page about output formats."""
    return "\n".join(
        [
            "Data goes to standard output, messages to standard error. An empty list is [] in JSON.",
            f"-o, --output   {', '.join(FORMATS)}; default: SOKOVAN_FORMAT, or table",
            "--json         same as -o json; an error is one JSON object on standard error",
            "--columns      columns of a table or csv, or fields of one object: --columns name,state",
            "--utc          timestamps (RFC 3339) instead of ages",
            "JSON and YAML use the field names of the API. wide and csv have all columns.",
        ]
    )


def spec() -> str:
    """The table of the keys of a session spec."""
    from sokovan.sdk.spec.session_spec import SESSION_FIELDS  # noqa: PLC0415  # YAML loads only here

    rows = [(key, one.meaning) for key, one in SESSION_FIELDS.items()]
    return "A session spec is a YAML document; a file may contain several.\n\n" + table(("KEY", "MEANING"), rows)


def deployment_spec() -> str:
    """The table of the keys of a deployment spec."""
    from sokovan.sdk.spec.deployment_spec import DEPLOYMENT_FIELDS  # noqa: PLC0415  # YAML loads only here

    rows = [(key, one.meaning) for key, one in DEPLOYMENT_FIELDS.items()]
    return "A deployment spec is a YAML document; a file may contain several.\n\n" + table(("KEY", "MEANING"), rows)


_PAGES: dict[str, Callable[[], str]] = {
    "exit-codes": exit_codes,
    "environment": environment,
    "formatting": formatting,
    "spec": spec,
    "deployment-spec": deployment_spec,
}
