"""Text to token ids and back, on Hugging Face's `tokenizers` library.

Two rules of ours stand over the library's: user text never becomes a control token (the library would match
`<|im_end|>` anywhere), so the library gets the vocabulary without them; and the bytes of each token are known one by
one, so that a detokeniser can work incrementally.

Does not know where a tokenizer comes from (`tokenizer_files.py`), conversations, or torch. `encode` may take a
while for long texts: call it off the event loop (it releases the interpreter's lock).
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from typing import Any

import tokenizers

from inference_worker.errors import UnsupportedModel
from inference_worker.tokenizer.control_tokens import ControlToken, ControlTokens, Plain
from inference_worker.tokenizer.token_bytes import token_bytes

Definition = dict[str, Any]
"""What `tokenizer.json` holds."""


class Tokenizer:
    """The vocabulary of one model, read-only: safe to share between threads."""

    def __init__(self, definition: Definition) -> None:
        """Build it from a `tokenizer.json`.

        Raises:
            UnsupportedModel: of a kind that the library or we don't know.
        """
        self.controls = ControlTokens(_controls(definition))
        plain = _without_controls(definition)
        self._plain = _build(plain)
        self._inner = _build(_without_first_prefix(plain))
        self.bytes_of: list[bytes] = token_bytes(definition)
        self.added = {token["content"]: token["id"] for token in definition.get("added_tokens") or []}
        """Ids of the tokens that stand beside the vocabulary, control tokens and others, by their text."""
        self.normalizer: Any = definition.get("normalizer")
        """What is done to a text before it is split; as in the definition."""
        self.max_token_bytes = max(map(len, self.bytes_of), default=0)

    @property
    def vocab_size(self) -> int:
        """Ids are below this; the model's output may be wider (padded)."""
        return len(self.bytes_of)

    def encode(self, text: str) -> list[int]:
        """Ids of plain text as a whole prompt, with the model's own prefix (beginning of sequence), if it has one."""
        return list(self._plain.encode_batch_fast([text], add_special_tokens=True)[0].ids)

    def encode_inside(self, text: str) -> list[int]:
        """Ids of plain text as it is within a longer one."""
        return list(self._inner.encode_batch_fast([text], add_special_tokens=False)[0].ids)

    def decode(self, ids: Iterable[int], *, skip_controls: bool) -> str:
        """The text of `ids`, without that of control tokens if `skip_controls`."""
        shown = (id_ for id_ in ids if not (skip_controls and id_ in self.controls.ids))
        return b"".join(map(self.token_data, shown)).decode(errors="replace")

    def encode_rendered(self, rendered: str, marker: str) -> list[int]:
        """Ids of a rendered template: unbroken control tokens by id, all else as plain text, `marker` removed."""
        parts = list(self.controls.split(rendered, marker))
        plain = iter(self._encode_plain([part for part in parts if isinstance(part, Plain)]))
        ids: list[int] = []
        for part in parts:
            ids.extend(next(plain) if isinstance(part, Plain) else (part,))
        return ids

    def token_text(self, token_id: int) -> str:
        """One token alone as text, replacement characters where it is a part of a character; "" if unknown."""
        return self.token_data(token_id).decode(errors="replace")

    def token_data(self, token_id: int) -> bytes:
        """UTF-8 of one token, perhaps a part of a character; empty outside the vocabulary."""
        return self.bytes_of[token_id] if 0 <= token_id < len(self.bytes_of) else b""

    def _encode_plain(self, parts: list[Plain]) -> Iterable[list[int]]:
        # Two encoders, for some vocabularies put a space before a text, but only at its very beginning.
        for part in parts:
            encoder = self._plain if part.first else self._inner
            yield encoder.encode_batch_fast([part.text], add_special_tokens=False)[0].ids


def plain_encoder(definition: Definition) -> tokenizers.Tokenizer:
    """The library's tokenizer, for which control tokens in a text are plain text.

    Raises:
        UnsupportedModel: of a kind that the library does not know.
    """
    return _build(_without_controls(definition))


def _build(definition: Definition) -> tokenizers.Tokenizer:
    try:
        built = tokenizers.Tokenizer.from_str(json.dumps(definition))
    except Exception as error:  # the library raises nothing finer
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
    """The same tokenizer without control tokens, in both places where they can be matched."""
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
    if isinstance(vocabulary, list):  # Unigram: the place is the id, so rename to what no text contains
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
