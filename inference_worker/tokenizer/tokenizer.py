"""Encodes text to token ids and back with Hugging Face's `tokenizers`; users' text never becomes control tokens.

The library would match `<|im_end|>` anywhere in a text, so it gets the vocabulary without control tokens. Decoding
uses a table of each token's bytes, so that a detokeniser can work incrementally. `encode` may take long for long
texts: call it off the event loop (it releases the GIL).
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from typing import Any

import tokenizers

from inference_worker.errors import UnsupportedModel
from inference_worker.tokenizer.control_tokens import ControlToken, ControlTokens, PlainText
from inference_worker.tokenizer.token_bytes import token_bytes

Definition = dict[str, Any]
"""Content of a `tokenizer.json`."""


class Tokenizer:
    """Tokenizer of one model: encodes text to token ids and back. Read-only, so safe to share between threads."""

    def __init__(self, definition: Definition) -> None:
        """Build the tokenizer from a `tokenizer.json`.

        Raises:
            UnsupportedModel: the library or `token_bytes` does not support this kind of tokenizer.
        """
        self.controls = ControlTokens(_controls(definition))
        plain = _without_controls(definition)
        self._plain = _build(plain)
        self._inner = _build(_without_first_prefix(plain))
        self.bytes_of: list[bytes] = token_bytes(definition)
        self.added = {token["content"]: token["id"] for token in definition.get("added_tokens") or []}
        """Ids of added tokens (control tokens and others) by their text."""
        self._added_names = {id_: text for text, id_ in self.added.items()}
        self.normalizer: Any = definition.get("normalizer")
        """The `normalizer` of the definition."""
        self.max_token_bytes = max(map(len, self.bytes_of), default=0)

    @property
    def vocab_size(self) -> int:
        """Number of token ids in the tokenizer; the model may have more logits (padding)."""
        return len(self.bytes_of)

    def encode(self, text: str, *, special_tokens: bool = True) -> list[int]:
        """Return the token ids of plain text as a whole prompt, with the model's beginning-of-sequence token if any.

        Without `special_tokens` the tokenizer adds none.
        """
        return list(self._plain.encode_batch_fast([text], add_special_tokens=special_tokens)[0].ids)

    def encode_inside(self, text: str) -> list[int]:
        """Return the token ids of plain text within a longer text, without begin token or added leading space."""
        return list(self._inner.encode_batch_fast([text], add_special_tokens=False)[0].ids)

    def decode(self, ids: Iterable[int], *, skip_controls: bool) -> str:
        """Return the text of token `ids`; invalid bytes become U+FFFD.

        With `skip_controls` control tokens are left out.
        """
        shown = (id_ for id_ in ids if not (skip_controls and id_ in self.controls.ids))
        return b"".join(map(self.token_data, shown)).decode(errors="replace")

    def encode_rendered(self, rendered: str, marker: str) -> list[int]:
        """Return the token ids of a prompt that a chat template rendered.

        Control tokens that are not broken by `marker` become their ids; all else is plain text.
        """
        parts = list(self.controls.split(rendered, marker))
        plain = iter(self._encode_plain([part for part in parts if isinstance(part, PlainText)]))
        ids: list[int] = []
        for part in parts:
            ids.extend(next(plain) if isinstance(part, PlainText) else (part,))
        return ids

    def token_text(self, token_id: int) -> str:
        """Return the text of one token id, with U+FFFD for incomplete characters; "" if the id is unknown."""
        return self.token_data(token_id).decode(errors="replace")

    def name_of(self, token_id: int) -> str:
        """Return the name of one token id in the vocabulary, such as `Ġthe`; "" if the id is unknown."""
        return self._added_names.get(token_id) or self._plain.id_to_token(token_id) or ""

    def token_data(self, token_id: int) -> bytes:
        """Return the bytes of a token id, perhaps of an incomplete character; empty for ids outside the vocabulary."""
        return self.bytes_of[token_id] if 0 <= token_id < len(self.bytes_of) else b""

    def _encode_plain(self, parts: list[PlainText]) -> Iterable[list[int]]:
        # Two encoders, because some vocabularies add a space at the very beginning of a text only.
        for part in parts:
            encoder = self._plain if part.first else self._inner
            yield encoder.encode_batch_fast([part.text], add_special_tokens=False)[0].ids


def full_tokenizer(definition: Definition) -> tokenizers.Tokenizer:
    """Create a `tokenizers.Tokenizer` from the content of a `tokenizer.json` that knows the control tokens' names.

    For token ids only: it would read control tokens in a text as such.

    Raises:
        UnsupportedModel: the library does not support this kind of tokenizer.
    """
    return _build(definition)


def plain_encoder(definition: Definition) -> tokenizers.Tokenizer:
    """Create a `tokenizers.Tokenizer` from the content of a `tokenizer.json` that encodes control tokens as plain text.

    Raises:
        UnsupportedModel: the library does not support this kind of tokenizer.
    """
    return _build(_without_controls(definition))


def _build(definition: Definition) -> tokenizers.Tokenizer:
    try:
        built = tokenizers.Tokenizer.from_str(json.dumps(definition))
    except Exception as error:  # the library raises nothing more specific
        raise UnsupportedModel(f"the tokenizer is not understood: {error}") from error
    built.no_padding()
    built.no_truncation()
    return built


def _controls(definition: Definition) -> list[ControlToken]:
    return [
        ControlToken(token["content"], token["id"], bool(token.get("lstrip")), bool(token.get("rstrip")))
        for token in definition.get("added_tokens") or []
        if token.get("special")
    ]


def _without_controls(definition: Definition) -> Definition:
    """Return the definition without control tokens, neither as added tokens nor in the model's vocabulary."""
    changed = copy.copy(definition)
    tokens = definition.get("added_tokens") or []
    controls = {token["content"] for token in tokens if token.get("special")}
    changed["added_tokens"] = [token for token in tokens if not token.get("special")]
    changed["model"] = _hide(definition["model"], controls)
    return changed


def _hide(model: Definition, controls: set[str]) -> Definition:
    vocabulary = model.get("vocab")
    if isinstance(vocabulary, dict):
        kept = {text: id_ for text, id_ in vocabulary.items() if text not in controls or text == model.get("unk_token")}
        return {**model, "vocab": kept}
    if isinstance(vocabulary, list):  # Unigram: the index is the id, so rename instead of removing
        return {
            **model,
            "vocab": [[f"\ufffe{text}" if text in controls else text, score] for text, score in vocabulary],
        }
    return model


def _without_first_prefix(definition: Definition) -> Definition:
    changed = copy.deepcopy({"pre_tokenizer": definition.get("pre_tokenizer")})
    stack = [changed["pre_tokenizer"]]
    while stack:
        part = stack.pop()
        if isinstance(part, dict):
            if part.get("type") == "Metaspace" and part.get("prepend_scheme") == "first":
                part["prepend_scheme"] = "never"
            stack.extend(part.get("pretokenizers") or [])
    return {**definition, **changed}
