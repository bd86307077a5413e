"""Writes the GGUF files of this folder by llama.cpp's converter and `llama-quantize`.

    python -m tests.fakes.gguf.write LLAMA_CPP_SOURCE LLAMA_QUANTIZE

The converter's vocabularies are left out: models this small have no tokenizer that it knows.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.fakes.gguf_models import FILES, MODELS, QUANTISED, gguf_model

_CONVERT = """
import sys
source, *sys.argv[1:] = sys.argv[1:]
sys.path[:0] = [source, source + "/gguf-py"]
import convert_hf_to_gguf as converter
of_all = converter.get_model_class
def without_vocabulary(*names, **options):
    found = of_all(*names, **options)
    found.set_vocab = found._set_vocab_none
    return found
converter.get_model_class = without_vocabulary
converter.main()
"""


def convert(source: str, name: str, target: Path, kind: str) -> None:
    """Write the model `name` of `MODELS` to `target` by llama.cpp's `convert_hf_to_gguf.py`, as `f16` or `f32`."""
    with tempfile.TemporaryDirectory() as folder:
        model = gguf_model(name)
        model.save_pretrained(folder)
        # The converter of Gemma 3 reads the size of the vocabulary from here.
        vocabulary = {str(id_): id_ for id_ in range(model.config.vocab_size)}
        (Path(folder) / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocabulary}, "added_tokens": []}))
        options = [folder, "--outfile", str(target), "--outtype", kind]
        subprocess.run([sys.executable, "-c", _CONVERT, source, *options], check=True)


def main(source: str, quantize: str) -> None:
    """Write all files."""
    for name in MODELS:
        if name != "wide":
            convert(source, name, FILES / f"{name}.gguf", "f16")
    with tempfile.TemporaryDirectory() as folder:
        wide = Path(folder) / "wide.gguf"
        convert(source, "wide", wide, "f32")
        for kind in QUANTISED:
            subprocess.run([quantize, wide, FILES / f"wide.{kind}.gguf", kind, "1"], check=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
