"""Messages of the stream of an upload."""

from __future__ import annotations

import pytest

from sokovan.wire.link_codec import MalformedFrame
from sokovan.wire.upload_messages import FileHeader, UploadEnd, decode_upload_message, encode_upload_message


@pytest.mark.parametrize("message", [FileHeader("a/b", "0" * 64, 7, executable=True), UploadEnd()])
def test_a_message_is_read_as_it_was_written(message: FileHeader | UploadEnd) -> None:
    assert decode_upload_message(encode_upload_message(message)) == message


@pytest.mark.parametrize("text", ["", "{}", '{"type": "other"}', '{"type": "file", "path": 1}'])
def test_any_other_text_is_malformed(text: str) -> None:
    with pytest.raises(MalformedFrame):
        decode_upload_message(text)
