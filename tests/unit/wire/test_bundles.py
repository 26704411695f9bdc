"""Requests that are sent together share a frame, and what they have in common."""

from __future__ import annotations

from sokovan.wire.bundles import bundles_of, requests_of
from sokovan.wire.frames import BUNDLE_MAX, CreateKernel, Request, RequestBundle, StopKernel
from sokovan.wire.link_codec import decode, encode


def creation(number: int, *, hosts: int, session: str = "s1") -> Request:
    """The creation of one kernel of a gang with this many hosts."""
    addresses = ",".join(f"10.0.{host // 256}.{host % 256}" for host in range(hosts))
    launch = CreateKernel(
        kernel_id=f"k{number}",
        attempt=1,
        session_id=session,
        image="plain",
        command=("true",),
        environment={"SOKOVAN_RANK": str(number), "SOKOVAN_HOSTS": addresses},
        files={"hostfile": addresses},
    )
    return Request(number=number, incarnation=1, allowed_ms=1, command=launch)


def sent_bytes(size: int) -> int:
    """The bytes that one agent gets for a gang of this size."""
    return sum(len(encode(frame)) for frame in bundles_of([creation(one, hosts=size) for one in range(1, size + 1)]))


def test_the_bytes_of_a_gang_do_not_grow_with_the_square_of_its_size() -> None:
    assert sent_bytes(60) < 3 * sent_bytes(30)


def test_a_bundle_carries_every_request_whole() -> None:
    stop = Request(number=9, incarnation=1, allowed_ms=5, command=StopKernel("k1", 1, 3.0))
    requests = [
        *(creation(number, hosts=40) for number in (1, 2, 3)),
        creation(4, hosts=2, session="s2"),
        *(creation(number, hosts=number, session="s3") for number in (5, 6)),
        stop,
    ]
    [frame] = bundles_of(requests)
    bundle = decode(encode(frame))
    assert isinstance(bundle, RequestBundle)
    assert list(requests_of(bundle)) == requests


def test_a_request_by_itself_is_no_bundle_and_a_bundle_is_bounded() -> None:
    requests = [creation(number, hosts=1) for number in range(1, BUNDLE_MAX + 2)]
    first, last = bundles_of(requests)
    assert isinstance(first, RequestBundle)
    assert len(first.requests) == BUNDLE_MAX
    assert last == requests[-1]
    assert bundles_of([]) == []
