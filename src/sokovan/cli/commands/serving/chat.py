"""`sokovan chat`: a small streaming client of a served model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from sokovan.cli.commands.options import DEFAULT_SERVER, ServerOptions
from sokovan.cli.exit_codes import OK
from sokovan.cli.formatting import utc_text
from sokovan.cli.output import flush_output, print_bytes, print_data
from sokovan.sdk.environment import SystemEnvironment
from sokovan.sdk.errors import ClientProblem, InvalidSetting
from sokovan.wire.api.deployments import EndpointTokenBody
from sokovan.wire.serving.chat_events import ChatFailed, MalformedChat, refusal_of, text_of

if TYPE_CHECKING:
    from sokovan.sdk.sync.client import Client
    from sokovan.wire.api.deployments import DeploymentView

# The token of one chat: it is revoked at the end, and expires if that fails.
TOKEN_S = 600
REPLY_LIMIT_S = 600.0
_WITHOUT_CONTROL = {number: "\ufffd" for number in (*range(32), *range(127, 160)) if chr(number) not in "\n\t"}


class ModelRefused(ClientProblem):
    """The gateway or the engine refused the request."""

    code = "model-refused"
    hint = "see sokovan deployment why NAME"


def chat(
    deployment: str,
    /,
    *prompt: str,
    model: str | None = None,
    max_tokens: int | None = None,
    server: ServerOptions = DEFAULT_SERVER,
) -> int:
    """Ask a served model and print its answer.

    Creates a token for this request, and revokes it afterwards.

    For example:
      sokovan chat qwen "Why is the sky blue?"
      sokovan chat qwen --max-tokens 20 hello

    Parameters
    ----------
    deployment
        Deployment name or ID, or a unique prefix of one.
    prompt
        The question.
    model
        Model name, if the deployment serves several.
    max_tokens
        Longest answer, in tokens.
    """
    if not prompt:
        raise InvalidSetting("no question given", hint='write it after the name: sokovan chat qwen "hello"')
    body: dict[str, Any] = {"messages": [{"role": "user", "content": " ".join(prompt)}], "stream": True}
    if max_tokens is not None:
        body["max_tokens"] = max_tokens
    with server.client() as client:
        view = client.deployments.get(deployment)
        if not view.url:
            raise ModelRefused("this server has no gateway", hint="start one with sokovan up or sokovan proxy")
        with _token(client, view) as token:
            for text in _answer(view.url, token, {"model": model or view.models[0], **body}):
                print_bytes(_shown(text).encode(errors="replace"))
                flush_output()
    print_data("")
    return OK


@contextmanager
def _token(client: Client, view: DeploymentView) -> Iterator[str]:
    now = datetime.fromtimestamp(SystemEnvironment().wall_s(), UTC)
    expires = utc_text(now + timedelta(seconds=TOKEN_S))
    created = client.deployments.tokens.create(view.id, EndpointTokenBody(name="chat", expires_at=expires))
    try:
        yield created.token
    finally:
        client.deployments.tokens.revoke(view.id, created.id)


def _answer(url: str, token: str, body: Mapping[str, Any]) -> Iterator[str]:
    """The parts of the answer. Raises ModelRefused."""
    try:
        with closing(_connection(url)) as connection:
            response = _sent(connection, url, token, body)
            if response.status != 200:
                raise ModelRefused(refusal_of(response.read(), response.status))
            yield from _parts(response)
    except (OSError, HTTPException) as error:
        raise ModelRefused(f"the gateway {url} does not answer: {error}") from error


def _connection(url: str) -> HTTPConnection:
    parts = urlsplit(url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    return kind(parts.hostname or "", parts.port, timeout=REPLY_LIMIT_S)


def _sent(connection: HTTPConnection, url: str, token: str, body: Mapping[str, Any]) -> HTTPResponse:
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    connection.request("POST", f"{urlsplit(url).path}/chat/completions", json.dumps(body), headers)
    return connection.getresponse()


def _parts(response: HTTPResponse) -> Iterator[str]:
    for line in response:
        try:
            yield text_of(line)
        except ChatFailed as error:
            raise ModelRefused(str(error)) from None
        except MalformedChat:
            raise ModelRefused(f"the engine sent something else than a part of an answer: {line[:80]!r}") from None


def _shown(text: str) -> str:
    """The text without control characters: an answer must not command the terminal."""
    return text.translate(_WITHOUT_CONTROL)
