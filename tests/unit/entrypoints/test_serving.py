"""Digests of endpoint tokens depend on the server's pepper, which proxies do not know."""

from sokovan.entrypoints.serving import digest_key, new_secret, replica_requests, token_digest


def test_the_digest_of_a_token_is_keyed() -> None:
    first, second = digest_key(b"a" * 32), digest_key(b"b" * 32)
    assert first != second
    assert token_digest("ske_x", first) != token_digest("ske_x", second)
    assert len(token_digest("ske_x", first)) == 64


def test_secrets_differ() -> None:
    assert len({new_secret() for _ in range(10)}) == 10


def test_the_built_in_engines_are_known() -> None:
    assert replica_requests().define is not None
