"""Finds the token ids of "+" and "-", by which a process reward model labels steps, in a tokenizer's vocabulary."""

from __future__ import annotations

from inference_worker.errors import UnsupportedModel
from inference_worker.tokenizer.tokenizer import Definition, plain_encoder

GOOD, BAD = "+", "-"


def step_label_ids(definition: Definition) -> tuple[int, int]:
    """Return the token ids of the labels of a good and of a bad step, "+" and "-" (Math-Shepherd; Wang et al., 2023).

    `definition` is the content of the model's `tokenizer.json`.

    Raises:
        UnsupportedModel: a label is not one token, or the kind of tokenizer is not served.
    """
    ids = plain_encoder(definition).encode(f"{GOOD} {BAD}", add_special_tokens=False).ids
    if len(ids) != 2:
        raise UnsupportedModel(f"the labels {GOOD} and {BAD} of steps are not one token each")
    return ids[0], ids[1]
