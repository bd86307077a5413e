"""Formats vectors as the JSON body of a response of `/v1/embeddings`.

An answer may hold millions of numbers, so it is written without an object for each; tests validate it against the
models in `openai/embeddings.py`.
"""

from __future__ import annotations

import base64
import sys
from array import array
from collections.abc import Callable, Sequence

from gateway.answers.event_frames import quoted
from router.messages import Usage


def write(vectors: Sequence[bytes], *, model: str, usage: Usage, as_base64: bool) -> bytes:
    """Return the JSON body of an embeddings response, from float32 `vectors` (little-endian) in order of the inputs.

    Formatting many vectors takes long enough to block an event loop: call it in a thread.
    """
    encode: Callable[[bytes], str] = _base64 if as_base64 else numbers
    data = ",".join(
        f'{{"object":"embedding","index":{index},"embedding":{encode(vector)}}}' for index, vector in enumerate(vectors)
    )
    tokens = usage.prompt_tokens
    used = f'{{"prompt_tokens":{tokens},"total_tokens":{tokens}}}'
    return f'{{"object":"list","data":[{data}],"model":{quoted(model)},"usage":{used}}}'.encode()


def _base64(vector: bytes) -> str:
    return f'"{base64.b64encode(vector).decode()}"'


def numbers(vector: bytes) -> str:
    """Format a float32 vector as a JSON array with nine digits, which is enough to restore the same float32."""
    components = array("f", vector)
    if sys.byteorder == "big":
        components.byteswap()
    return f"[{','.join(['%.9g'] * len(components)) % tuple(components)}]"
