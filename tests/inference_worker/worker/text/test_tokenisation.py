"""Tokenisation jobs: ids, names and texts as the tokenizer has them, beside running generations, at no cost."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from pathlib import Path

import pytest

from inference_worker.errors import PromptRejected
from inference_worker.worker.embedding.processor import EmbeddingProcessor
from inference_worker.worker.text import tokenisation
from inference_worker.worker.text.model_limits import ModelLimits
from inference_worker.worker.text.tokenisation import TokenList
from router.messages import (
    Failed,
    FailureCode,
    Finished,
    Outcome,
    Started,
    TextPrompt,
    TokenisationPrompt,
    Tokenised,
    TokenPrompt,
    Usage,
)
from tests.fakes.counting_text import BEGIN, VOCAB_SIZE, counting_ready, counting_text
from tests.fakes.tiny_scorers import save_pair_tokenizer
from tests.inference_worker.worker_bench import CHAT, Bench, make_job

LIMITS = ModelLimits(max_model_len=4096, vocab_size=VOCAB_SIZE)
LONG = 2000
"""Characters of a text that is tokenised in a thread."""


async def tokens_of(prompt: TokenisationPrompt) -> TokenList:
    return await counting_text().tokenise(make_job("j", prompt=prompt), prompt, LIMITS)


@pytest.mark.parametrize("text", ["ab c", "a" * LONG])
async def test_the_tokens_of_a_text(text: str) -> None:
    tokenizer = counting_text().tokenizer
    prompt = TokenisationPrompt(source=TextPrompt(text), names=True)
    tokens = await tokens_of(prompt)
    assert (tokens.ids, tokens.count) == (tokenizer.encode(text), len(tokens.ids))
    assert "".join(tokens.names).replace("Ġ", " ").endswith(text)
    assert await tokens_of(TokenisationPrompt(source=TextPrompt(text), count_only=True)) == TokenList(tokens.count)


async def test_a_conversation_has_the_tokens_of_its_generation() -> None:
    generation = await counting_text().prepare(make_job("j"), "r", LIMITS)
    tokens = await tokens_of(TokenisationPrompt(source=CHAT))
    assert tokens.ids == generation.prompt_ids
    assert BEGIN in tokens.ids


async def test_the_text_of_token_ids_has_control_tokens() -> None:
    ids = (await tokens_of(TokenisationPrompt(source=CHAT))).ids
    tokens = await tokens_of(TokenisationPrompt(source=TokenPrompt(ids)))
    assert (tokens.count, tokens.ids) == (len(ids), [])
    assert tokens.text == counting_text().tokenizer.decode(ids, skip_controls=False)
    with pytest.raises(PromptRejected) as caught:
        await tokens_of(TokenisationPrompt(source=TokenPrompt([VOCAB_SIZE])))
    assert caught.value.param == "tokens"


async def test_more_ids_than_a_message_holds_are_only_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenisation, "MAX_TOKENS", 3)
    with pytest.raises(PromptRejected):
        await tokens_of(TokenisationPrompt(source=TextPrompt("abcdefgh")))
    assert (await tokens_of(TokenisationPrompt(source=TextPrompt("abcdefgh"), count_only=True))).count > 3


async def test_prompts_do_not_wait_for_tokenisations(monkeypatch: pytest.MonkeyPatch) -> None:
    text, released = counting_text(), threading.Event()
    encode = text.tokenizer.encode

    def slow(given: str, *, special_tokens: bool = True) -> list[int]:
        if given.startswith("b"):
            released.wait(10)
        return encode(given, special_tokens=special_tokens)

    monkeypatch.setattr(text.tokenizer, "encode", slow)
    prompt = TokenisationPrompt(source=TextPrompt("b" * LONG), count_only=True)
    async with asyncio.TaskGroup() as tasks:
        waiting = [tasks.create_task(text.tokenise(make_job("t", prompt=prompt), prompt, LIMITS)) for _ in range(8)]
        await asyncio.sleep(0)
        try:
            await text.prepare(make_job("j", prompt=TextPrompt("a" * LONG)), "r", LIMITS)
            assert not any(each.done() for each in waiting)
        finally:
            released.set()


async def test_an_embedding_model_s_tokenizer(tmp_path: Path) -> None:
    whole = save_pair_tokenizer(tmp_path, segments=True)
    text = EmbeddingProcessor.of(tmp_path)
    ready = counting_ready(1, 256)

    async def tokens_of(source: TextPrompt | TokenPrompt, **options: bool) -> TokenList:
        return await text.tokenise(TokenisationPrompt(source=source, **options), ready)

    tokens = await tokens_of(TextPrompt("Ab [SEP]"), names=True)
    assert tokens.names == ["[CLS]", "a", "##b", "[UNK]", "s", "##e", "##p", "[UNK]", "[SEP]"]
    assert tokens.ids == [whole.token_to_id(name) for name in tokens.names]
    assert (await tokens_of(TextPrompt("Ab"), add_special_tokens=False, count_only=True)).count == 2
    assert (await tokens_of(TokenPrompt(tokens.ids[:3]))).text == "[CLS] a ##b"
    with pytest.raises(PromptRejected) as caught:
        await text.tokenise(TokenisationPrompt(source=CHAT), ready)
    assert caught.value.code is FailureCode.INVALID_PROMPT


async def test_a_full_worker_answers_at_once_and_bills_nothing() -> None:
    async with Bench(max_num_seqs=1).up() as bench:
        await bench.send(make_job("running", max_tokens=50))
        await bench.submitted(1)
        job = partial(make_job, service_class="priority")
        await bench.send(job("t", prompt=TokenisationPrompt(source=TextPrompt("ab"))))
        terminal, record = await bench.ended("t")
        assert [type(reply) for reply in bench.of("t")] == [Started, Tokenised, Finished]
        assert isinstance(terminal, Finished)
        assert terminal.usage == record.usage == Usage(prompt_tokens=0)
        assert record.outcome is Outcome.FINISHED
        assert len(bench.engine.submitted) == 1
        await bench.send(job("u", prompt=TokenisationPrompt(source=TokenPrompt([-1]))))
        terminal, record = await bench.ended("u")
        assert isinstance(terminal, Failed)
        assert (terminal.code, terminal.param) == (FailureCode.INVALID_PARAMETER, "tokens")
        assert bench.statuses[-1].tokenises
        assert not bench.terminals("running")
