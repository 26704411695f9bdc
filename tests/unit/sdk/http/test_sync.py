"""The HTTP client of the sync SDK, against small servers on real sockets."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from sokovan.adapters.local.certificates import CertificateAuthority
from sokovan.adapters.local.clock import SystemClock
from sokovan.sdk.http.requests import HttpFailure, HttpRequest
from sokovan.sdk.http.sync import Http, certificates, route_to

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Request-Id: r1\r\n\r\nhi"
HANG_UP = b"X-Then: hang-up"
LIMIT_S = 60.0


class Listener:
    """A server that answers with given bytes; after HANG_UP in them it closes the connection."""

    def __init__(self, *answers: bytes) -> None:
        self._answers = list(answers)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.requests: list[str] = []
        self.connections = 0
        self.closed = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while self._answers:
            connection, _ = self._socket.accept()
            self.connections += 1
            with connection:
                while self._answers and (request := _whole_request(connection)):
                    self.requests.append(request.decode())
                    answer = self._answers.pop(0)
                    if answer != HANG_UP:
                        connection.sendall(answer)
                    if HANG_UP in answer:
                        break
            self.closed.set()
        self._socket.close()


def _whole_request(connection: socket.socket) -> bytes:
    """The next request with its body; empty if the client closed the connection."""
    received = b""
    while b"\r\n\r\n" not in received or not received.endswith(b"body" if b"Content-Length" in received else b""):
        part = connection.recv(65536)
        if not part:
            break
        received += part
    return received


def request(target: str = "/x", *, read_s: float = LIMIT_S, content: bytes | None = None) -> HttpRequest:
    method = "GET" if content is None else "POST"
    return HttpRequest(
        method=method, target=target, headers={"A": "b"}, content=content, read_s=read_s, connect_s=LIMIT_S
    )


@contextmanager
def http(url: str, *, proxies: bool = False) -> Iterator[Http]:
    client = Http(url, proxies=proxies)
    yield client
    client.close()


def read(client: Http, one: HttpRequest) -> bytes:
    with client.exchange(one) as response:
        assert response.status_code == 200
        return response.read()


def test_requests_share_a_connection_and_bodies_arrive() -> None:
    server = Listener(OK, OK)
    with http(f"{server.url}/base/") as client:
        with client.exchange(request("/x?a=1")) as response:
            assert (response.status_code, response.headers.get("x-request-id"), response.read()) == (200, "r1", b"hi")
        assert read(client, request(content=b"body")) == b"hi"
    assert [one.splitlines()[0] for one in server.requests] == ["GET /base/x?a=1 HTTP/1.1", "POST /base/x HTTP/1.1"]
    assert server.requests[1].endswith("\r\n\r\nbody")
    assert "A: b" in server.requests[0]
    assert server.connections == 1


def test_a_connection_that_the_server_closed_is_replaced() -> None:
    server = Listener(OK.replace(b"X-Request-Id: r1", HANG_UP), OK)
    with http(server.url) as client:
        assert read(client, request()) == b"hi"
        assert server.closed.wait(LIMIT_S)
        assert read(client, request()) == b"hi"
    assert server.connections == 2


def test_a_stream_is_given_in_the_parts_that_arrive() -> None:
    parts = "data: é\n\n".encode()
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(one), one) for one in (parts[:7], parts[7:]))
    server = Listener(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n", OK)
    with http(server.url) as client:
        with client.exchange(request()) as response:
            assert "".join(response.iter_text()) == "data: é\n\n"
        assert read(client, request()) == b"hi"
    assert server.connections == 1


def test_a_response_that_is_left_early_does_not_disturb_the_next() -> None:
    server = Listener(OK, OK)
    with http(server.url) as client:
        with client.exchange(request()) as response:
            assert response.status_code == 200
        assert read(client, request()) == b"hi"
    assert server.connections == 2


@pytest.mark.parametrize(
    "answer",
    [HANG_UP, b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n%s\r\n\r\nhi" % HANG_UP],
)
def test_a_request_without_a_whole_response_may_have_arrived(answer: bytes) -> None:
    server = Listener(answer)
    with http(server.url) as client, pytest.raises(HttpFailure) as caught:
        read(client, request())
    assert (caught.value.sent, caught.value.slow) == (True, False)


def test_a_server_that_does_not_listen_got_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with http(f"http://127.0.0.1:{port}") as client, pytest.raises(HttpFailure) as caught:
        read(client, request())
    assert (caught.value.sent, caught.value.slow) == (False, False)


@pytest.mark.parametrize("url", ["http://127.0.0.1:99999", "http://[::1", "http://nowhere.invalid"])
def test_an_address_that_leads_nowhere_is_a_failure(url: str) -> None:
    with http(url) as client, pytest.raises(HttpFailure) as caught:
        read(client, request())
    assert not caught.value.sent


def test_a_server_that_does_not_answer_is_slow() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with http(url) as client, pytest.raises(HttpFailure) as caught:
            read(client, request(read_s=0.01))
    assert (caught.value.sent, caught.value.slow) == (True, True)


def test_a_proxy_of_the_environment_gets_the_whole_address_and_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = Listener(OK)
    monkeypatch.setenv("http_proxy", proxy.url.replace("http://", "http://ada:secret@"))
    monkeypatch.delenv("no_proxy", raising=False)
    with http("http://sokovan.test:81/base", proxies=True) as client:
        assert read(client, request()) == b"hi"
    assert proxy.requests[0].startswith("GET http://sokovan.test:81/base/x HTTP/1.1\r\n")
    assert "Proxy-Authorization: Basic YWRhOnNlY3JldA==" in proxy.requests[0]


def test_a_tunnel_hides_the_request_and_its_key_from_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = Listener(b"HTTP/1.1 403 No\r\n%s\r\n\r\n" % HANG_UP)
    monkeypatch.setenv("https_proxy", proxy.url)
    monkeypatch.delenv("no_proxy", raising=False)
    with http("https://sokovan.test", proxies=True) as client, pytest.raises(HttpFailure) as caught:
        read(client, request())
    assert not caught.value.sent
    assert proxy.requests[0].startswith("CONNECT sokovan.test:443 HTTP/1.")
    assert "A: b" not in proxy.requests[0]


@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:1", "https://127.0.0.1:1"])
def test_a_proxy_that_speaks_another_protocol_is_refused_by_name(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", proxy)
    monkeypatch.delenv("no_proxy", raising=False)
    with pytest.raises(ValueError, match=f"{proxy[:6]}.*not supported"):
        route_to("http://sokovan.test", proxies=True)


def test_a_host_that_is_exempt_is_reached_without_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Listener(OK)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with http(server.url, proxies=True) as client:
        assert read(client, request()) == b"hi"


def test_threads_share_a_client() -> None:
    server = Listener(*[OK] * 4)
    found: list[bytes] = []
    with http(server.url) as client:
        threads = [threading.Thread(target=lambda: found.append(read(client, request()))) for _ in range(4)]
        for one in threads:
            one.start()
            one.join(LIMIT_S)
    assert found == [b"hi"] * 4


@contextmanager
def tls_server(folder: Path, *, behind: bool = False) -> Iterator[tuple[int, str, list[str]]]:
    """The port of a server with TLS, its authority, and the requests that it got; `behind` a proxy."""
    authority = CertificateAuthority(folder, SystemClock())
    context, requests = authority.serving(("127.0.0.1",), "api.pem"), list[str]()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            plain, _ = listener.accept()
            if behind:
                requests.append(_whole_request(plain).decode())
                plain.sendall(b"HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\n")
            # A client that does not trust the authority ends the handshake.
            with suppress(ssl.SSLError), context.wrap_socket(plain, server_side=True) as connection:
                while request := _whole_request(connection):
                    requests.append(request.decode())
                    connection.sendall(OK)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1], str(folder / "authority.pem"), requests
        thread.join(LIMIT_S)


def test_requests_over_tls_share_a_connection(tmp_path: Path) -> None:
    with tls_server(tmp_path / "tls") as (port, authority, requests):
        client = Http(f"https://127.0.0.1:{port}", proxies=False, ca=authority)
        assert [read(client, request()), read(client, request(content=b"body"))] == [b"hi", b"hi"]
        client.close()
    assert [one.splitlines()[0] for one in requests] == ["GET /x HTTP/1.1", "POST /x HTTP/1.1"]
    assert f"Host: 127.0.0.1:{port}" in requests[0]


def test_a_tunnel_leads_to_a_server_with_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    with tls_server(tmp_path / "tls", behind=True) as (port, authority, requests):
        monkeypatch.setenv("https_proxy", f"http://ada:secret@127.0.0.1:{port}")
        client = Http("https://127.0.0.1:9999", proxies=True, ca=authority)
        assert read(client, request()) == b"hi"
        client.close()
    assert requests[0].startswith("CONNECT 127.0.0.1:9999 HTTP/1.1\r\n")
    assert "Proxy-Authorization: Basic YWRhOnNlY3JldA==" in requests[0]
    assert "Proxy-Authorization" not in requests[1]
    assert "Host: 127.0.0.1:9999" in requests[1]


def test_a_server_of_another_authority_gets_nothing(tmp_path: Path) -> None:
    other = CertificateAuthority(tmp_path / "other", SystemClock())
    assert other is not None
    with tls_server(tmp_path / "tls") as (port, _, requests):
        client = Http(f"https://127.0.0.1:{port}", proxies=False, ca=str(tmp_path / "other" / "authority.pem"))
        with pytest.raises(HttpFailure, match="certificate") as caught:
            read(client, request())
        client.close()
    assert (caught.value.sent, requests) == (False, [])


@pytest.mark.slow
def test_certificates_are_verified() -> None:
    context = route_to("https://sokovan.test", proxies=False).address.context
    assert context is not None
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert route_to("http://sokovan.test", proxies=False).address.context is None


def test_an_authority_of_its_own_replaces_those_of_the_system(tmp_path: Path) -> None:
    authority = CertificateAuthority(tmp_path / "tls", SystemClock())
    context = certificates(str(tmp_path / "tls" / "authority.pem"))
    assert [one["subject"] for one in context.get_ca_certs()] == [((("commonName", "Sokovan local authority"),),)]
    assert authority.serving(("10.0.0.1", "lab.example"), "api.pem").verify_mode is ssl.CERT_NONE
    with pytest.raises(OSError, match="No such file"):
        certificates(str(tmp_path / "none.pem"))
