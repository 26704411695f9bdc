from collections.abc import Sequence
from typing import Unpack

from sokovan.checkpoints import checkpoint as checkpoint
from sokovan.checkpoints import eviction as eviction
from sokovan.sdk.aio.client import AsyncClient as AsyncClient
from sokovan.sdk.errors import ClientProblem as ClientProblem
from sokovan.sdk.sync.client import Client as Client
from sokovan.sdk.sync.handle import SessionHandle as SessionHandle
from sokovan.wire.api.sessions import RunOptions

__version__: str

def run(command: str | Sequence[str] = (), **options: Unpack[RunOptions]) -> SessionHandle: ...
