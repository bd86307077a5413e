"""Tiny random pipelines of the diffusers library, saved as they are published."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from diffusers import (
    AutoencoderKL,
    DDIMScheduler,
    FlowMatchEulerDiscreteScheduler,
    FluxPipeline,
    FluxTransformer2DModel,
    StableDiffusionPipeline,
    UNet2DConditionModel,
)
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer, T5Config, T5EncoderModel, T5TokenizerFast

LONGEST_PROMPT = 16
"""Tokens of the longest prompt, with the begin and end tokens."""


def save_pipeline(folder: Path) -> Path:
    """Save a Stable Diffusion pipeline without a safety checker, and return its folder."""
    torch.manual_seed(7)
    unet = UNet2DConditionModel(
        sample_size=32,
        block_out_channels=(32, 64),
        layers_per_block=1,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=32,
        attention_head_dim=8,
    )
    vae = AutoencoderKL(
        block_out_channels=[32, 64],
        down_block_types=["DownEncoderBlock2D", "DownEncoderBlock2D"],
        up_block_types=["UpDecoderBlock2D", "UpDecoderBlock2D"],
        latent_channels=4,
    )
    tokenizer = _tokenizer(folder / "vocabulary")
    text_encoder = _text_encoder(tokenizer)
    pipeline = StableDiffusionPipeline(
        vae=vae,
        text_encoder=text_encoder,
        tokenizer=tokenizer,
        unet=unet,
        scheduler=DDIMScheduler(clip_sample=False, steps_offset=1),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )
    pipeline.save_pretrained(folder / "tiny-pipeline")  # type: ignore[attr-defined]  # its base is untyped
    return folder / "tiny-pipeline"


def save_flux_pipeline(folder: Path) -> Path:
    """Save a pipeline with FLUX.1-schnell's classes, and return its folder; it reads prompts of up to 512 tokens."""
    torch.manual_seed(7)
    tokenizer, second_tokenizer = _tokenizer(folder / "vocabulary"), _sentencepiece_tokenizer()
    transformer = FluxTransformer2DModel(
        patch_size=1,
        in_channels=16,
        num_layers=1,
        num_single_layers=1,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=32,
        pooled_projection_dim=32,
        axes_dims_rope=[4, 4, 8],
        guidance_embeds=False,
    )
    vae = AutoencoderKL(
        sample_size=32,
        block_out_channels=(4,),
        norm_num_groups=1,
        use_quant_conv=False,
        use_post_quant_conv=False,
        shift_factor=0.06,
        scaling_factor=1.5,
    )
    pipeline = FluxPipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(),
        text_encoder=_text_encoder(tokenizer),
        tokenizer=tokenizer,
        text_encoder_2=T5EncoderModel(
            T5Config(vocab_size=len(second_tokenizer), d_model=32, d_ff=37, d_kv=8, num_heads=4, num_layers=2)
        ),
        tokenizer_2=second_tokenizer,
        transformer=transformer,
        vae=vae,
    )
    pipeline.save_pretrained(folder / "tiny-flux")  # type: ignore[attr-defined]  # its base is untyped
    return folder / "tiny-flux"


def _text_encoder(tokenizer: CLIPTokenizer) -> CLIPTextModel:
    return CLIPTextModel(
        CLIPTextConfig(
            hidden_size=32,
            intermediate_size=37,
            num_attention_heads=4,
            num_hidden_layers=2,
            vocab_size=len(tokenizer),
            max_position_embeddings=LONGEST_PROMPT,
            projection_dim=32,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
        )
    )


def _sentencepiece_tokenizer() -> T5TokenizerFast:
    """Return a tokenizer of single characters like that of T5."""
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("\u2581", -1.0)]
    tokenizer = Tokenizer(models.Unigram([*pieces, *((chr(code), -2.0) for code in range(33, 127))], unk_id=2))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return T5TokenizerFast(tokenizer_object=tokenizer, model_max_length=512)


def _tokenizer(folder: Path) -> CLIPTokenizer:
    """Return a tokenizer of single characters."""
    folder.mkdir(parents=True)
    characters = [chr(code) for code in range(33, 127)]
    vocabulary = [*characters, *(f"{each}</w>" for each in characters), "<|startoftext|>", "<|endoftext|>"]
    (folder / "vocab.json").write_text(json.dumps({token: number for number, token in enumerate(vocabulary)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    return CLIPTokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"), model_max_length=LONGEST_PROMPT)
