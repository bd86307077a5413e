"""Tiny vision-language models with random weights, most of them in the layout of Hugging Face folders.

SmolVLM (Idefics 3's architecture) and LLaVA-NeXT cut large images into tiles, LLaVA does not, Qwen2-VL keeps a state of
positions; so they test what differs between families.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tokenizers
import torch
from tokenizers import decoders, models, pre_tokenizers
from transformers import (
    Idefics3Config,
    Idefics3ForConditionalGeneration,
    Idefics3Processor,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaNextConfig,
    LlavaNextForConditionalGeneration,
    LlavaNextProcessor,
    LlavaProcessor,
    PreTrainedTokenizerFast,
    Qwen2VLConfig,
    Qwen2VLForConditionalGeneration,
)
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil
from transformers.models.llava_next.image_processing_pil_llava_next import LlavaNextImageProcessorPil

CONTEXT = 1024
END = "<|im_end|>"
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + ':' }}"
    "{% for part in message['content'] %}"
    "{% if part['type'] == 'text' %}{{ part['text'] }}{% else %}{{ IMAGE }}{% endif %}"
    "{% endfor %}{{ '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant:' }}{% endif %}"
)
_IDEFICS_TOKENS = ["<image>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>"]
_VISION_SIZES = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": 32,
    "patch_size": 8,
}
QWEN_IMAGE = 290
"""Id of the image token of the tiny Qwen2-VL."""


def save_idefics(folder: Path, *, seed: int = 0) -> Path:
    """Save a tiny SmolVLM (Idefics 3) in `folder`: an image is one tile of 4 tokens, a large one up to 9 more."""
    rows = [f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7)]
    tokenizer = _tokenizer([*_IDEFICS_TOKENS, *rows], TEMPLATE.replace("IMAGE", "'<image>'"))
    torch.manual_seed(seed)
    config = Idefics3Config(
        text_config={"model_type": "llama", **_text_sizes(len(tokenizer), end=tokenizer.eos_token_id)},
        vision_config=_VISION_SIZES,
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        scale_factor=2,
        tie_word_embeddings=False,
    )
    images = Idefics3ImageProcessorPil(size={"longest_edge": 96}, max_image_size={"longest_edge": 32})
    processor = Idefics3Processor(images, tokenizer, image_seq_len=4, chat_template=tokenizer.chat_template)
    return _save(folder, Idefics3ForConditionalGeneration(config), processor)


def save_llava(folder: Path, *, tiles: bool) -> Path:
    """Save a tiny LLaVA in `folder`, of which an image has 16 tokens; with `tiles` a LLaVA-NeXT, with more by size."""
    tokenizer = _tokenizer(["<image>"], TEMPLATE.replace("IMAGE", "'<image>'"))
    torch.manual_seed(0)
    sides = {"size": {"shortest_edge": 32}, "crop_size": {"height": 32, "width": 32}}
    grid = {"image_grid_pinpoints": [[32, 64], [64, 32], [64, 64]]}
    options = {"patch_size": 8, "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1}
    sizes: dict[str, Any] = {
        "text_config": {"model_type": "llama", **_text_sizes(len(tokenizer), end=tokenizer.eos_token_id)},
        "vision_config": {"model_type": "clip_vision_model", "projection_dim": 32, **_VISION_SIZES},
        "image_token_id": tokenizer.convert_tokens_to_ids("<image>"),
    }
    chat = {"chat_template": tokenizer.chat_template}
    if tiles:
        cut = LlavaNextImageProcessorPil(**sides, **grid)
        processor: Any = LlavaNextProcessor(cut, tokenizer, **options, **chat)
        return _save(folder, LlavaNextForConditionalGeneration(LlavaNextConfig(**sizes, **grid)), processor)
    processor = LlavaProcessor(CLIPImageProcessorPil(**sides), tokenizer, **options, **chat)
    return _save(folder, LlavaForConditionalGeneration(LlavaConfig(**sizes)), processor)


def qwen() -> Qwen2VLForConditionalGeneration:
    """Return a tiny Qwen2-VL. Its processor is left out, because it needs torchvision for videos."""
    torch.manual_seed(0)
    config = Qwen2VLConfig(
        text_config={
            **_text_sizes(300, end=QWEN_IMAGE - 1),
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]},
        },
        vision_config={"depth": 1, "embed_dim": 32, "hidden_size": 64, "num_heads": 2, "mlp_ratio": 2, "patch_size": 4},
        image_token_id=QWEN_IMAGE,
        video_token_id=QWEN_IMAGE + 1,
        vision_start_token_id=QWEN_IMAGE + 2,
        vision_end_token_id=QWEN_IMAGE + 3,
    )
    return Qwen2VLForConditionalGeneration(config).eval()


def _text_sizes(vocab_size: int, *, end: int) -> dict[str, Any]:
    return {
        "vocab_size": vocab_size,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": CONTEXT,
        "bos_token_id": None,
        "eos_token_id": end,
        "pad_token_id": end,
    }


def _tokenizer(controls: list[str], template: str) -> PreTrainedTokenizerFast:
    """Return a tokenizer of single bytes and the control tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = tokenizers.Tokenizer(models.BPE({symbol: id_ for id_, symbol in enumerate(alphabet)}, []))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens(["<|im_start|>", END, *controls])
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, eos_token=END, pad_token=END, chat_template=template, model_max_length=CONTEXT
    )


def _save(folder: Path, model: Any, processor: Any) -> Path:
    model.generation_config.eos_token_id = processor.tokenizer.eos_token_id
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder
