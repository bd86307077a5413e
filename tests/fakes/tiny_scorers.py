"""Tiny random cross-encoders, reward models and a chat model, saved as they are published.

Their tokenizers are of bytes or letters.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification, PreTrainedModel

from tests.fakes.tiny_models import BASE

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
)
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<extra_0>"]


def save_pair_tokenizer(folder: Path, *, segments: bool) -> Tokenizer:
    """A WordPiece vocabulary of letters, with BERT's template of pairs, or RoBERTa's without segments."""
    letters = "abcdefghijklmnopqrstuvwxyz0123456789.?+-"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *letters, *(f"##{letter}" for letter in letters)]
    tokenizer = Tokenizer(models.WordPiece({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(words[:4])
    second = 1 if segments else 0
    middle = "[SEP]" if segments else "[SEP] [SEP]"
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair=f"[CLS] $A {middle} $B:{second} [SEP]:{second}",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    return tokenizer


def save_byte_tokenizer(folder: Path, *, chat: bool) -> Tokenizer:
    """A vocabulary of bytes and of Qwen's control tokens; its begin token is added to whole texts."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merged = ["Ġ-"]
    vocabulary = {word: index for index, word in enumerate([*SPECIAL, *alphabet, *merged])}
    tokenizer = Tokenizer(models.BPE(vocabulary, [("Ġ", "-")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(word, special=True) for word in SPECIAL])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|endoftext|> $A", pair="<|endoftext|> $A $B", special_tokens=[("<|endoftext|>", 0)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    if chat:
        config = {"chat_template": CHAT_TEMPLATE, "eos_token": "<|im_end|>"}
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return tokenizer


def save_pair_model(folder: Path, model_type: str = "bert", **changes: Any) -> tuple[PreTrainedModel, Tokenizer]:
    """A cross-encoder; returns it in evaluation mode."""
    tokenizer = save_pair_tokenizer(folder, segments=model_type == "bert")
    config = AutoConfig.for_model(model_type, **BASE | {"num_labels": 1} | changes)
    return _saved(AutoModelForSequenceClassification, folder, config), tokenizer


def save_answer_model(folder: Path, model_type: str = "qwen2", **changes: Any) -> tuple[PreTrainedModel, Tokenizer]:
    """A decoder with one label at the last token and a chat template."""
    tokenizer = save_byte_tokenizer(folder, chat=True)
    config = AutoConfig.for_model(model_type, **_sizes() | {"num_labels": 1} | changes)
    return _saved(AutoModelForSequenceClassification, folder, config), tokenizer


def save_tagged_model(folder: Path) -> tuple[PreTrainedModel, Tokenizer]:
    """A causal language model, as Math-Shepherd."""
    tokenizer = save_byte_tokenizer(folder, chat=False)
    return _saved(AutoModelForCausalLM, folder, AutoConfig.for_model("mistral", **_sizes())), tokenizer


def save_chat_model(folder: Path, **changes: Any) -> tuple[PreTrainedModel, Tokenizer]:
    """A causal language model with a chat template, which answers what the others score."""
    tokenizer = save_byte_tokenizer(folder, chat=True)
    return _saved(AutoModelForCausalLM, folder, AutoConfig.for_model("qwen2", **_sizes() | changes)), tokenizer


def save_step_model(
    folder: Path, architecture: str, **changes: Any
) -> tuple[PreTrainedModel, dict[str, torch.Tensor], Tokenizer]:
    """A Qwen2 or Llama with a head of Qwen2.5-Math-PRM or -RM or Skywork-o1-Open-PRM; returns base, head, tokens."""
    lines = architecture.endswith("ForPrmModel")
    tokenizer = save_byte_tokenizer(folder, chat=not lines)
    model_type = architecture.split("For", maxsplit=1)[0].lower()
    model = _saved(AutoModelForCausalLM, folder, AutoConfig.for_model(model_type, **_sizes() | changes))
    hidden = BASE["hidden_size"]
    if lines:
        head = {"v_head.summary.weight": torch.randn(1, hidden), "v_head.summary.bias": torch.randn(1)}
    else:
        labels = 2 if architecture == "Qwen2ForProcessRewardModel" else 1
        head = {
            "score.0.weight": torch.randn(hidden, hidden) * 0.3,
            "score.0.bias": torch.randn(hidden),
            "score.2.weight": torch.randn(labels, hidden) * 0.3,
            "score.2.bias": torch.randn(labels),
        }
    file, described = folder / "model.safetensors", folder / "config.json"
    save_file(load_file(file) | head, file, metadata={"format": "pt"})
    described.write_text(json.dumps(json.loads(described.read_text()) | {"architectures": [architecture]}))
    return model.base_model, head, tokenizer


def _sizes() -> dict[str, Any]:
    ids = {"bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 0}
    return BASE | ids | {"vocab_size": 300, "max_position_embeddings": 512, "tie_word_embeddings": False}


def _saved(kind: Any, folder: Path, config: Any) -> PreTrainedModel:
    torch.manual_seed(7)
    model: PreTrainedModel = kind.from_config(config).float().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.15)
    model.save_pretrained(folder)
    return model
