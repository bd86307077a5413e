"""Reads a model's tokenizer and chat template from a folder in Hugging Face's layout or from a GGUF file.

Reads `tokenizer.json`, `tokenizer_config.json` and `chat_template.jinja`. The engine reads its vocabulary (the bytes
of each token, for grammars) here too. Must not import torch or use the network.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inference_worker.errors import BadWeights, ModelNotFound, UnsupportedModel
from inference_worker.model_files.gguf_metadata import GGUFTokenizer, read_tokenizer
from inference_worker.model_files.model_source import read_json_object
from inference_worker.structured.vocabulary import Vocabulary
from inference_worker.tokenizer.token_bytes import token_bytes
from inference_worker.tokenizer.tokenizer import Definition, Tokenizer
from inference_worker.tokenizer.tokenizer_gguf import tokenizer_definition

_NAMED_TOKENS = ("bos_token", "eos_token", "unk_token", "pad_token")


@dataclass(frozen=True)
class TextFiles:
    """A model's tokenizer, chat template (if any), and the named tokens (`bos_token`, ...) for the template."""

    tokenizer: Tokenizer
    chat_template: str | None
    named_tokens: dict[str, str]


def read_text_files(path: Path) -> TextFiles:
    """Read the tokenizer, the chat template and the named special tokens of the model folder or .gguf file at `path`.

    Raises:
        ModelNotFound: there is no tokenizer at `path`.
        BadWeights: a file is damaged.
        UnsupportedModel: the kind of tokenizer is not served.
    """
    return _from_gguf(read_tokenizer(path)) if path.is_file() else _from_folder(path)


def read_definition(folder: Path) -> Definition:
    """Read the content of `tokenizer.json` in a model folder, as a JSON object.

    Raises:
        ModelNotFound: there is no such file.
        BadWeights: the file is damaged.
    """
    definition = read_json_object(folder / "tokenizer.json")
    if definition is None:
        raise ModelNotFound(f"no tokenizer.json in {folder}: only fast tokenizers are served")
    return definition


def read_vocabulary(path: Path) -> Vocabulary:
    """Read the bytes of each token of the model at `path`, for grammars, without building a tokenizer.

    Raises:
        ModelNotFound: there is no tokenizer at `path`.
        BadWeights: a file is damaged.
        UnsupportedModel: the kind of tokenizer is not served.
    """
    definition = tokenizer_definition(read_tokenizer(path)) if path.is_file() else read_definition(path)
    try:
        added = definition.get("added_tokens") or []
        return Vocabulary(token_bytes(definition), frozenset(token["id"] for token in added if token.get("special")))
    except (KeyError, TypeError, AttributeError) as error:
        raise UnsupportedModel(f"{path} has no tokenizer that is understood: {error!r}") from error


def _from_gguf(gguf: GGUFTokenizer) -> TextFiles:
    eos = gguf.eos_token_ids[0] if gguf.eos_token_ids else None
    ids = (gguf.bos_token_id, eos, gguf.unknown_token_id, gguf.padding_token_id)
    named = {
        name: gguf.tokens[id_]
        for name, id_ in zip(_NAMED_TOKENS, ids, strict=True)
        if id_ is not None and 0 <= id_ < len(gguf.tokens)
    }
    return TextFiles(Tokenizer(tokenizer_definition(gguf)), gguf.chat_template, named)


def _from_folder(folder: Path) -> TextFiles:
    definition = read_definition(folder)
    config = read_json_object(folder / "tokenizer_config.json") or {}
    try:
        named = {name: _token_text(config[name]) for name in _NAMED_TOKENS if config.get(name)}
        return TextFiles(Tokenizer(definition), _chat_template(folder, config), named)
    except (KeyError, TypeError, AttributeError) as error:
        raise UnsupportedModel(f"{folder} has no tokenizer that is understood: {error!r}") from error


def _token_text(value: Any) -> str:
    return str(value["content"] if isinstance(value, dict) else value)


def _chat_template(folder: Path, config: dict[str, Any]) -> str | None:
    file = folder / "chat_template.jinja"
    if file.is_file():
        try:
            return file.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise BadWeights(f"can't read {file}: {error}") from error
    template = config.get("chat_template")
    if isinstance(template, list):  # several named templates; the one for tools is not used
        named = {entry["name"]: entry["template"] for entry in template}
        template = named.get("default")
    return template if isinstance(template, str) else None
