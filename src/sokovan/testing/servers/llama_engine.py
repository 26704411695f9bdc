"""llama.cpp's own server from a wheel, and a small model made on the spot.

`python -m sokovan.testing.servers.llama_engine` takes the options of `llama-server` that the
generator `llama-cpp` writes, so that its command line is run as it is.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection, HTTPException
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import sokovan
from sokovan.testing.servers.process import LOOPBACK, ServerProcess

PROGRAM = "llama-server"
KEY_VARIABLE = "LLAMA_API_KEY"
REPLY_LIMIT_S = 30.0
CONTEXT = 8_192
WIDTH, HEADS, LAYERS, HIDDEN = 64, 4, 2, 128
_SPECIAL = ("<unk>", "<s>", "</s>")
_UNKNOWN, _CONTROL, _BYTE = 2, 3, 6
_TEMPLATE = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}assistant:"


def write_model(path: Path) -> Path:
    """Write a Llama of two layers that knows bytes only, always the same one."""
    writer: Any = import_module("gguf").GGUFWriter(str(path), "llama")
    tokens = [*_SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256))]
    writer.add_block_count(LAYERS)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types([_UNKNOWN, _CONTROL, _CONTROL, *[_BYTE] * 256])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_chat_template(_TEMPLATE)
    for name, shape in _shapes(len(tokens)).items():
        writer.add_tensor(name, _weights(name, shape))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _shapes(vocabulary: int) -> dict[str, tuple[int, ...]]:
    square = (WIDTH, WIDTH)
    shapes: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (vocabulary, WIDTH),
        "output_norm.weight": (WIDTH,),
        "output.weight": (vocabulary, WIDTH),
    }
    for layer in range(LAYERS):
        parts: dict[str, tuple[int, ...]] = {
            "attn_norm": (WIDTH,),
            "attn_q": square,
            "attn_k": square,
            "attn_v": square,
            "attn_output": square,
            "ffn_norm": (WIDTH,),
            "ffn_gate": (HIDDEN, WIDTH),
            "ffn_up": (HIDDEN, WIDTH),
            "ffn_down": (WIDTH, HIDDEN),
        }
        shapes |= {f"blk.{layer}.{name}.weight": shape for name, shape in parts.items()}
    return shapes


def _weights(name: str, shape: tuple[int, ...]) -> Any:
    """Norms are 1, other weights look random and are the same each time."""
    if "norm" in name:
        return np.ones(shape, dtype=np.float32)
    places = np.arange(int(np.prod(shape)), dtype=np.float64) + 1 + sum(name.encode())
    return (np.modf(np.sin(places) * 43_758.5453)[0].reshape(shape) / 4).astype(np.float32)


def install(folder: Path) -> None:
    """Write the program `llama-server` into a folder, for the PATH of kernels."""
    program = folder / PROGRAM
    root = Path(sokovan.__file__).parents[1]
    program.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.append({str(root)!r})\n"
        "from sokovan.testing.servers.llama_engine import main\nmain()\n",
        encoding="utf-8",
    )
    program.chmod(0o755)


class LlamaServer(ServerProcess):
    """A llama.cpp server with a model, and a key if one is given."""

    environment = "SOKOVAN_TEST_LLAMA_URL"

    def __init__(self, *options: str, model: Path, name: str = "tiny", key: str = "") -> None:
        super().__init__()
        self._options, self._model, self.name, self.key = options, model, name, key

    @property
    def url(self) -> str:
        """The base URL of the OpenAI API."""
        return f"http://{LOOPBACK}:{self.port}/v1"

    def _arguments(self) -> Sequence[str]:
        """The program as a module."""
        own = ("-m", str(self._model), "--port", str(self.port), "--alias", self.name)
        return [sys.executable, "-m", "sokovan.testing.servers.llama_engine", *own, *self._options]

    @property
    def _variables(self) -> Mapping[str, str]:
        """The path of the package, and the key."""
        return {"PATH": os.defpath, "PYTHONPATH": str(Path(sokovan.__file__).parents[1]), KEY_VARIABLE: self.key}

    def answers(self) -> bool:
        """Whether the model is loaded."""
        connection = HTTPConnection(LOOPBACK, self.port, timeout=REPLY_LIMIT_S)
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()


def main(words: Sequence[str] | None = None) -> None:
    """Serve until a signal."""
    parser = argparse.ArgumentParser(prog=PROGRAM)
    parser.add_argument("-m", "--model", required=True)
    parser.add_argument("--host", default=LOOPBACK)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--alias", default="tiny")
    parser.add_argument("--metrics", action="store_true")
    parser.add_argument("--parallel", type=int, default=4)
    parser.add_argument("--embeddings", action="store_true")
    parser.add_argument("--pooling", choices=["none", "mean", "cls", "last"], default="none")
    options = parser.parse_args(words)
    library: Any = import_module("xllamacpp")
    terms = library.CommonParams()
    terms.model.path, terms.hostnames, terms.port = options.model, [options.host], options.port
    terms.model_alias = [options.alias]
    terms.n_parallel, terms.n_ctx = options.parallel, CONTEXT
    terms.endpoint_metrics, terms.embedding = options.metrics, options.embeddings
    if options.embeddings:
        terms.pooling_type = getattr(library.llama_pooling_type, f"LLAMA_POOLING_TYPE_{options.pooling.upper()}")
    terms.api_keys = [key for key in [os.environ.get(KEY_VARIABLE, "")] if key]
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    serving = library.Server(terms)  # serves in threads of its own
    while serving:
        signal.pause()


if __name__ == "__main__":
    main()
