"""Reference vectors computed with `transformers` one text at a time, and texts of many lengths and scripts."""

from __future__ import annotations

from pathlib import Path

import torch
from torch.nn import functional as F
from transformers import AutoModel, AutoTokenizer

SENTENCES = [
    "A headrace leads water to the mill wheel.",
    "Der Obergraben führt das Wasser zum Mühlrad; Straße, Größe, Äpfel.",
    "Вода идёт по каналу к мельничному колесу.",
    "水は水路を通って水車へ流れる。",
    "引水渠把水引到水轮。",
    "الماء يجري في القناة إلى الطاحونة.",
    "पानी नहर से चक्की तक जाता है।",
    "물은 수로를 따라 물레방아로 흐른다.",
    "น้ำไหลผ่านคลองไปยังกังหัน",
    "Τὸ ὕδωρ ῥεῖ πρὸς τὸν μύλον· ἀρχή.",
    "המים זורמים בתעלה אל הטחנה.",
    "🙂🏳️‍🌈 emoji, e\u0301 combining, ﬁ ligature, ½ and ² and \u2028 breaks",
    "def step(self) -> list[int]:\n\treturn [x ** 2 for x in range(10) if x % 3]",
    '{"key": [1, 2.5e-3, null], "more": "<b>text</b> &amp; 100 %"}',
    "The [MASK] of [CLS] and [SEP] is plain text to [UNK] and <s>.",
    "MIXED Case WITH ACCENTS: ÉCOLE, Żółć, İstanbul",
    "https://example.org/a/very/long/path?with=query&and=more#fragment",
    "supercalifragilisticexpialidocious antidisestablishmentarianism",
    "1234567890 3.14159 -273.15 1,000,000.00 0x7fff",
    "a",
]
LENGTHS = (1, 2, 4, 7, 11)


def texts() -> list[str]:
    """Return a hundred texts, from one letter to about the model's maximum length."""
    return [" ".join([sentence] * _times(sentence, length)) for length in LENGTHS for sentence in SENTENCES]


def _times(sentence: str, length: int) -> int:
    tokens = sum(1 if not c.isascii() else 2 * (not c.isalnum()) for c in sentence)  # about, and rather more
    return max(1, min(length, 180 // max(1, tokens)))


def vectors(folder: Path, inputs: list[str]) -> torch.Tensor:
    """Return the vectors by mean pooling, [inputs, dimensions]; control tokens in texts are encoded as plain text."""
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    model = AutoModel.from_pretrained(folder, local_files_only=True).eval()
    with torch.inference_mode():
        return torch.cat([_vector(model, tokenizer(_apart(text), return_tensors="pt")) for text in inputs])


def _vector(model: torch.nn.Module, encoded: dict[str, torch.Tensor]) -> torch.Tensor:
    states = model(input_ids=encoded["input_ids"], attention_mask=encoded["attention_mask"]).last_hidden_state
    return F.normalize(states.mean(dim=1), dim=-1)


def _apart(text: str) -> str:
    for name in ("MASK", "CLS", "SEP", "UNK", "PAD"):
        text = text.replace(f"[{name}]", f"[ {name} ]")
    return text
