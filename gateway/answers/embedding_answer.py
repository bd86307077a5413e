"""How `/v1/embeddings` spells an answer.

There may be millions of numbers in one, so it is written without an object for each; tests hold it against the models
in `openai/embeddings.py`.
"""

from __future__ import annotations

import base64
import sys
from array import array
from collections.abc import Callable, Sequence

from gateway.answers.event_frames import quoted
from router.messages import Usage


def write(vectors: Sequence[bytes], *, model: str, usage: Usage, as_base64: bool) -> bytes:
    """The body: float32 vectors (little-endian), in order of the inputs. Takes a while for many: use a thread."""
    spell: Callable[[bytes], str] = _base64 if as_base64 else _numbers
    data = ",".join(
        f'{{"object":"embedding","index":{index},"embedding":{spell(vector)}}}' for index, vector in enumerate(vectors)
    )
    tokens = usage.prompt_tokens
    used = f'{{"prompt_tokens":{tokens},"total_tokens":{tokens}}}'
    return f'{{"object":"list","data":[{data}],"model":{quoted(model)},"usage":{used}}}'.encode()


def _base64(vector: bytes) -> str:
    return f'"{base64.b64encode(vector).decode()}"'


def _numbers(vector: bytes) -> str:
    """Nine digits: as many as it takes to get the same float32 back."""
    numbers = array("f", vector)
    if sys.byteorder == "big":
        numbers.byteswap()
    return f"[{','.join(['%.9g'] * len(numbers)) % tuple(numbers)}]"
