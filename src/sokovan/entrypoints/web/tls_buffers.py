"""The memory of TLS connections of this process.

asyncio allocates the buffer that each connection reads into at once, and its size is a
constant of the class. Most connections of a server are links with small frames.
"""

from __future__ import annotations

from asyncio.sslproto import SSLProtocol

# Twice the largest record of TLS, so that a read takes a whole one with what came before it.
TLS_BUFFER_BYTES = 32 << 10


def limit_tls_buffers() -> int:
    """Give further connections of this process small buffers; returns their size."""
    SSLProtocol.max_size = min(SSLProtocol.max_size, TLS_BUFFER_BYTES)
    return SSLProtocol.max_size
