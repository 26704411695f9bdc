"""`sokovan dashboard` and `sokovan login`: the dashboard and its logins."""

from __future__ import annotations

from sokovan.cli import formatting
from sokovan.cli.commands.catalog.catalog_actions import list_all
from sokovan.cli.commands.options import DEFAULT_SERVER, TABLE_OUTPUT, OutputOptions, ServerOptions, Yes
from sokovan.cli.exit_codes import OK
from sokovan.cli.output import flush_output, print_data, print_status
from sokovan.cli.prompts import confirm, is_interactive
from sokovan.cli.rendering import Column
from sokovan.sdk.environment import SystemEnvironment
from sokovan.wire.api.tenancy import LoginView


def dashboard(*, browser: bool = True, server: ServerOptions = DEFAULT_SERVER) -> int:
    """Open the dashboard in the browser.

    Prints an address that logs one browser in as you, once and within 60 seconds.

    For example:
      sokovan dashboard
      sokovan dashboard --no-browser

    Parameters
    ----------
    browser
        Start the browser, if this is a terminal.
    """
    with server.client() as client:
        made = client.keys.logins.create_code()
        address = f"{client.endpoint.url.rstrip('/')}{made.path}"
    print_data(address)
    flush_output()
    print_status("the address works once, within 60 seconds")
    if browser and is_interactive():
        import webbrowser  # noqa: PLC0415  # it loads only where a browser is started

        webbrowser.open(address)
    return OK


def ls(*, output: OutputOptions = TABLE_OUTPUT) -> int:
    """List browsers that are logged in to the dashboard.

    For example:
      sokovan login ls
    """
    now_s, utc = SystemEnvironment().wall_s(), output.utc
    columns: list[Column[LoginView]] = [
        Column("login", lambda login: login.id),
        Column("user", lambda login: login.user),
        Column("key", lambda login: login.access_key),
        Column("from", lambda login: login.address),
        Column("began", lambda login: formatting.age(login.created_at, now_s=now_s, utc=utc)),
        Column("used", lambda login: formatting.age(login.used_at, now_s=now_s, utc=utc)),
        Column("ends", lambda login: login.expires_at),
    ]
    return list_all(output, columns, lambda client: client.keys.logins.list(), key="id")


def remove(login: str, /, *, yes: Yes = False, server: ServerOptions = DEFAULT_SERVER) -> int:
    """End a login of the dashboard.

    For example:
      sokovan login rm LI-01JCN8 --yes

    Parameters
    ----------
    login
        Login ID as listed by sokovan login ls.
    """
    confirm(f"end login {login}", yes=yes)
    with server.client() as client:
        client.keys.logins.delete(login)
    print_status(f"login {login} ended")
    return OK
