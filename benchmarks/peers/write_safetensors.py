"""Program that converts a GGUF model file to a Hugging Face folder in bfloat16 for peers; arguments: FILE FOLDER."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

source, target = Path(sys.argv[1]), sys.argv[2]
# Quantised weights would be dequantised again in every forward pass.
model = AutoModelForCausalLM.from_pretrained(
    str(source.parent),
    gguf_file=source.name,
    dtype=torch.bfloat16,
    quantization_config=GgufConfig(dequantize=True),
)
model.save_pretrained(target)
AutoTokenizer.from_pretrained(str(source.parent), gguf_file=source.name).save_pretrained(target)
