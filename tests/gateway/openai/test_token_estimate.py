"""Estimates of tokens, against a tokenizer: rarely too low, and not far too high."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.openai.token_estimate import estimated_tokens

TEXTS = {
    "english": "The international committee deliberates about the infrastructure of the town, and adjourns at noon.",
    "polish": "Wynajmujący zobowiązuje się oddać najemcy lokal, a najemca zobowiązuje się płacić umówiony czynsz.",
    "russian": "Договор аренды квартиры заключён между сторонами на один год.",
    "chinese": "今日は天気がいいですね。水は透明です。",
    "code": "def parse(text: str) -> int:\n    return int(sum(size_of(word) for word in re.findall(r'\\S+', text)))\n",
    "table": "| 2026-11-26 | 1,234,567.89 | 192.168.0.1 | EUR 49.99 |",
}


@pytest.mark.model
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_estimates_are_near_the_number_of_wordpieces(text: str, embedding_folder: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer.from_file(str(embedding_folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    exact = len(tokenizer.encode(text * 10, add_special_tokens=False).ids)
    assert 0.9 * exact <= estimated_tokens(text * 10) <= 2 * exact


def test_nothing_has_no_tokens() -> None:
    assert estimated_tokens(" \n\t") == 0


def test_more_text_has_more_tokens() -> None:
    counts = [estimated_tokens("a1b2 żółć 水! " * number) for number in range(5)]
    assert counts == sorted(set(counts))
