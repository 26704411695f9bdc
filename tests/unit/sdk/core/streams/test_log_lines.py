"""Output as lines."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sokovan.sdk.core.streams.followers import LogPiece
from sokovan.sdk.core.streams.log_lines import LINE_MAX, LineReader, LogLine


def test_lines_of_several_kernels_do_not_mix() -> None:
    reader = LineReader()
    assert list(reader.feed(LogPiece(0, 0, b"ab"))) == []
    assert list(reader.feed(LogPiece(1, 0, b"x\ny"))) == [LogLine(1, b"x")]
    assert list(reader.feed(LogPiece(0, 2, b"c\r\n"))) == [LogLine(0, b"abc")]
    assert list(reader.close()) == [LogLine(1, b"y")]


def test_the_last_line_of_a_kernel_needs_no_end() -> None:
    reader = LineReader()
    assert list(reader.feed(LogPiece(0, 0, b"a\nb", end=True))) == [LogLine(0, b"a"), LogLine(0, b"b")]
    assert list(reader.close()) == []


def test_a_line_without_end_comes_in_parts() -> None:
    lines = list(LineReader().feed(LogPiece(0, 0, b"x" * (2 * LINE_MAX + 1))))
    assert [len(line.content) for line in lines] == [LINE_MAX, LINE_MAX]


def test_invalid_utf8_is_shown_with_replacements() -> None:
    assert str(LogLine(0, b"a\xffb")) == "a\ufffdb"


@given(st.binary(max_size=200), st.integers(1, 20))
def test_nothing_is_lost_however_the_output_is_cut(content: bytes, size: int) -> None:
    content = content.replace(b"\r", b"")
    reader = LineReader()
    pieces = [LogPiece(0, at, content[at : at + size]) for at in range(0, len(content), size)]
    lines = [line.content for piece in pieces for line in reader.feed(piece)] + [
        line.content for line in reader.close()
    ]
    assert b"\n".join(lines) == content.removesuffix(b"\n") if content.endswith(b"\n") else b"\n".join(lines) == content
