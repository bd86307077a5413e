"""Runs Sentence Transformers' `encode` on the texts of a JSON file, and prints its seconds and the first vector."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer

torch.set_num_threads(int(sys.argv[3]))
model = SentenceTransformer(sys.argv[1], device="cpu")
texts = json.loads(Path(sys.argv[2]).read_text())
model.encode(texts[:64], show_progress_bar=False)
began = time.perf_counter()
vectors = model.encode(texts, normalize_embeddings=True, show_progress_bar=False)
seconds = time.perf_counter() - began
print(json.dumps({"seconds": seconds, "vector": vectors[0].tolist()}))
