"""Any bytes become a frame or one kind of error."""

from __future__ import annotations

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sokovan.wire.frames import (
    PROTOCOL,
    Command,
    CreateKernel,
    DeviceEntry,
    Done,
    ForgetKernel,
    Frame,
    Heartbeat,
    Hello,
    HelloRefused,
    ImageStatus,
    KernelEntry,
    KernelGone,
    LogData,
    MeasureKernel,
    MountEntry,
    PrepareImage,
    ReadLog,
    Reply,
    ReportNow,
    Request,
    RequestFailed,
    Response,
    StopKernel,
    UseFigures,
    Welcome,
)
from sokovan.wire.link_codec import FRAME_BYTES_MAX, MalformedFrame, UnknownProtocol, decode, encode

HEAD = bytes((PROTOCOL,))
DEEP = b"\x91" * 100_000 + b"\x01"

COUNTS = st.integers(0, 2**62)
WORDS = st.text(max_size=8)
KEYS = {"kernel_id": WORDS, "attempt": COUNTS}
IMAGES = st.builds(ImageStatus, image=WORDS, state=WORDS, detail=WORDS)
ASKS: st.SearchStrategy[Command] = st.one_of(
    st.builds(CreateKernel, **KEYS, slots=st.dictionaries(WORDS, COUNTS), processes_max=COUNTS, log_bytes_max=COUNTS),
    st.builds(StopKernel, **KEYS, grace_s=st.floats(0, 60)),
    st.builds(ForgetKernel, **KEYS),
    st.builds(PrepareImage, image=WORDS),
    st.builds(ReadLog, **KEYS, offset=COUNTS, limit=COUNTS),
    st.builds(MeasureKernel, **KEYS),
)
REPLIES: st.SearchStrategy[Reply] = st.one_of(
    st.just(Done()),
    st.builds(KernelGone),
    IMAGES,
    st.builds(LogData, offset=COUNTS),
    st.builds(UseFigures, sampled_ms=COUNTS),
)
KERNELS = st.builds(KernelEntry, kernel_id=WORDS, attempt=COUNTS, exit_code=st.none() | st.integers(-255, 255))
FRAMES: st.SearchStrategy[Frame] = st.one_of(
    st.builds(
        Hello,
        incarnation=COUNTS,
        slots=st.dictionaries(WORDS, COUNTS),
        devices=st.lists(st.builds(DeviceEntry, units=COUNTS)).map(tuple),
        kernels_max=st.none() | COUNTS,
    ),
    st.builds(Welcome, incarnation=st.integers(1, 2**62), heartbeat_s=st.floats(0.01, 3600)),
    st.builds(HelloRefused),
    st.builds(
        Heartbeat,
        incarnation=COUNTS,
        sequence=COUNTS,
        kernels=st.lists(KERNELS).map(tuple),
        images=st.lists(IMAGES).map(tuple),
        load=st.dictionaries(WORDS, COUNTS),
    ),
    st.builds(Request, number=COUNTS, incarnation=COUNTS, allowed_ms=COUNTS, command=ASKS),
    st.builds(Response, number=COUNTS, reply=REPLIES),
    st.builds(RequestFailed, number=COUNTS),
    st.builds(ReportNow),
)


@pytest.mark.slow
@given(FRAMES)
def test_every_frame_is_read_as_it_was_written(frame: Frame) -> None:
    assert decode(encode(frame)) == frame


@given(st.binary(max_size=400))
def test_any_bytes_are_a_frame_or_malformed(content: bytes) -> None:
    for attempt in (content, HEAD + content):
        with suppress(MalformedFrame):
            decode(attempt)


@pytest.mark.slow
@given(FRAMES, st.data())
def test_a_frame_that_was_cut_or_bent_is_a_frame_or_malformed(frame: Frame, data: st.DataObject) -> None:
    content = bytearray(encode(frame))
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(content)))
    for attempt in (bytes(content), bytes(content[:cut])):
        with suppress(MalformedFrame):
            decode(attempt)


@pytest.mark.parametrize(
    "content",
    [
        HEAD + DEEP,
        HEAD + b"\x82\xa1z" + DEEP + b"\xa4type\xa7welcome",
        HEAD + b"\x82\xa4type\xa7welcome\xa1z" + DEEP,
        HEAD + b"\x82\xa4type\xa7welcome\xabincarnation" + DEEP,
    ],
    ids=["whole", "before the kind", "in an unknown field", "in a known field"],
)
def test_nesting_without_end_is_malformed(content: bytes) -> None:
    with pytest.raises(MalformedFrame):
        decode(content)


def test_a_frame_of_another_protocol_is_refused_with_both_numbers() -> None:
    content = bytes((PROTOCOL + 1,)) + encode(Welcome(incarnation=1, heartbeat_s=1.0))[1:]

    with pytest.raises(UnknownProtocol, match=rf"the peer uses protocol {PROTOCOL + 1}, this release .* {PROTOCOL}"):
        decode(content)


def test_a_frame_larger_than_the_bound_is_neither_written_nor_read() -> None:
    launch = CreateKernel(
        kernel_id="k", attempt=1, session_id="s", image="i", command=("x",), files={"a": "x" * FRAME_BYTES_MAX}
    )
    with pytest.raises(MalformedFrame, match="the limit is"):
        encode(Request(number=1, incarnation=1, allowed_ms=1, command=launch))
    with pytest.raises(MalformedFrame, match="the limit is"):
        decode(HEAD + bytes(FRAME_BYTES_MAX))


def test_an_empty_message_is_malformed() -> None:
    with pytest.raises(MalformedFrame, match="empty") as caught:
        decode(b"")

    assert caught.value.code == "malformed-frame"
    assert caught.value.hint


def test_text_that_is_no_unicode_is_malformed() -> None:
    with pytest.raises(MalformedFrame):
        decode(HEAD + b"\x81\xa4type\xa2\xff\xff")


def test_a_message_of_the_error_quotes_little_of_a_huge_frame() -> None:
    with pytest.raises(MalformedFrame) as caught:
        decode(HEAD + msgspec.msgpack.encode({"type": "x" * 100_000}))

    assert len(str(caught.value)) < 1000


def test_bytes_of_a_log_travel_as_they_are() -> None:
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(LogData(0, b"\xff\x00")), type=LogData).data == b"\xff\x00"


def test_the_names_on_the_wire_are_those_of_earlier_releases() -> None:
    launch = CreateKernel("k", 2, "s", "i", ("x",), mounts=(MountEntry("/a", "/b", read_only=False),))
    content = encode(Request(number=1, incarnation=3, allowed_ms=4, command=launch))
    assert msgspec.msgpack.decode(content[1:]) == {
        "type": "request",
        "number": 1,
        "incarnation": 3,
        "allowed_ms": 4,
        "ask": {
            "type": "create-kernel",
            "kernel_id": "k",
            "attempt": 2,
            "session_id": "s",
            "image": "i",
            "command": ["x"],
            "mounts": [{"source": "/a", "target": "/b", "read_only": False}],
        },
    }
