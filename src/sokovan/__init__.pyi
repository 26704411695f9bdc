from collections.abc import Sequence
from typing import Unpack

from sokovan.sdk.async_client import AsyncClient as AsyncClient
from sokovan.sdk.client import Client as Client
from sokovan.sdk.errors import ClientProblem as ClientProblem
from sokovan.sdk.handle import SessionHandle as SessionHandle
from sokovan.sdk.requesting import RunOptions

__version__: str

def run(command: str | Sequence[str] = (), **options: Unpack[RunOptions]) -> SessionHandle: ...
