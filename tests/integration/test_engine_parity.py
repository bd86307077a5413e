"""In float32 and greedy, the engine equals `transformers` token for token, however it schedules."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModelForCausalLM, PreTrainedModel

from inference_worker.engine.causal_lm import CausalLM
from inference_worker.engine.engine import Engine
from inference_worker.engine.loading.model_loader import load_model
from inference_worker.engine.weights.gguf_file import GGUFFile
from inference_worker.engine_protocol import GenerationRequest, PositionLogprobs, TokenEvent
from inference_worker.model_files.gguf_metadata import read_tokenizer
from inference_worker.model_files.model_source import resolve
from inference_worker.settings import EngineSettings
from router.messages import SamplingParams
from tests.fakes.tiny_models import save_tiny

HOME = Path(__file__).parents[2] / ".headrace" / "models"
NEW_TOKENS = 40
LENGTHS = (3, 12, 29, 64, 150)
"""`generate` runs prompts of one length together without padding, so its batches are exact."""

TEXTS = """The three primary colours are
def fibonacci(n):\n    if n < 2:\n        return n\n    return
Once upon a time, in a village by the sea, there lived an old fisherman who
Der schnelle braune Fuchs springt über den faulen
SELECT name, count(*) FROM orders WHERE total > 100 GROUP BY
La capitale de la France est
1, 1, 2, 3, 5, 8, 13,
Q: What is the boiling point of water at sea level?\nA:
To make a good cup of tea, first
The mitochondria is the powerhouse of the
{"name": "Ada", "born": 1815, "languages": [
Dear Sir or Madam,\n\nI am writing to complain about
In 1969, humans first landed on
import numpy as np\n\nx = np.linspace(0, 1,
It was the best of times, it was the worst of
The derivative of x^3 + 2x is
東京は日本の
Roses are red, violets are
<html>\n<head>\n<title>
Breaking news: scientists have discovered that
My favourite recipe for apple pie begins with
If all men are mortal and Socrates is a man, then
| country | capital |\n|---|---|\n| Italy |
The quick brown fox
"To be, or not to be," said""".splitlines()


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def model_file() -> Path:
    named = os.environ.get("HEADRACE_TEST_MODEL")
    path = Path(named) if named else next(HOME.glob("*.gguf"), None)
    if path is None:
        pytest.skip("no model file")
    return path


@pytest.fixture(scope="module")
def prompts(model_file: Path) -> list[list[int]]:
    """50 prompts, ten of each length; every second one is a user's turn of a chat."""
    known = read_tokenizer(model_file)
    merges = [(left, right) for left, right in (merge.split(" ") for merge in known.merges)]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(known.tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    texts = [text.encode().decode("unicode_escape") if "\\n" in text else text for text in TEXTS]
    found = []
    for i in range(50):
        running_on = "\n".join(texts[i % 25 :] + texts[: i % 25])
        chat = [1, *tokenizer.encode("user\n").ids] if i >= 25 else []
        found.append((chat + tokenizer.encode(running_on).ids)[: LENGTHS[i % 5]])
    assert len({tuple(prompt) for prompt in found}) >= 45
    return found


@pytest.fixture(scope="module")
def smollm2(model_file: Path) -> CausalLM:
    return load_model(resolve(str(model_file)), torch.float32, torch.device("cpu"))


@pytest.fixture(scope="module")
def theirs(model_file: Path) -> PreTrainedModel:
    """The same weights in `transformers` (`test_gguf_file.py` compares the loading of these)."""
    file = GGUFFile(model_file)
    theirs = AutoModelForCausalLM.from_config(file.config()).eval()
    theirs.load_state_dict({name: file.read(name) for name in file.shapes()}, strict=False)
    theirs.tie_weights()
    return theirs


@pytest.fixture(scope="module")
def expected(smollm2: CausalLM, prompts: list[list[int]]) -> list[list[int]]:
    """Our answers in batches of 32, which the test of fifty prompts holds against `transformers`."""
    return answers(engine_around(smollm2), prompts)


def choices(theirs: PreTrainedModel, prompts: list[list[int]], answers: list[list[int]]) -> list[list[int]]:
    """What `theirs` chooses greedily after the prompt and after each token of the answer, a pass for each length.

    Where that is the answer itself, `generate` gives it too: each token was chosen after the same ones before it.
    """
    found: dict[int, list[int]] = {}
    for length in sorted(set(map(len, prompts))):
        members = [i for i, prompt in enumerate(prompts) if len(prompt) == length]
        longest = max(len(answers[i]) for i in members)
        padded = [prompts[i] + answers[i] + [0] * (longest - len(answers[i])) for i in members]
        with torch.inference_mode():
            logits = theirs(torch.tensor(padded)[:, :-1], logits_to_keep=longest).logits
        found.update(zip(members, logits.argmax(dim=-1).tolist(), strict=True))
    return [found[i][: len(answers[i])] for i in range(len(prompts))]


def reference(theirs: PreTrainedModel, prompts: list[list[int]], new_tokens: int = NEW_TOKENS) -> list[list[int]]:
    """Greedy continuations by `generate`, cut behind the first end of text."""
    ends = ends_of(theirs)
    answers: dict[int, list[int]] = {}
    for length in sorted(set(map(len, prompts))):
        members = [i for i, prompt in enumerate(prompts) if len(prompt) == length]
        batch = torch.tensor([prompts[i] for i in members])
        rows = theirs.generate(
            batch, attention_mask=torch.ones_like(batch), do_sample=False, max_new_tokens=new_tokens, pad_token_id=0
        )
        answers.update(zip(members, rows[:, length:].tolist(), strict=True))
    return [until(answers[i], ends) for i in range(len(prompts))]


def ends_of(theirs: PreTrainedModel) -> set[int]:
    end = theirs.config.eos_token_id
    return {end} if isinstance(end, int) else set(end or [])


def until(ids: list[int], ends: set[int]) -> list[int]:
    return next((ids[: at + 1] for at, token in enumerate(ids) if token in ends), ids)


SETTINGS = EngineSettings(model="", dtype="float32", max_model_len=256, num_kv_blocks=1024, max_num_seqs=32)


def answers(engine: Engine, prompts: list[list[int]], new_tokens: int = NEW_TOKENS) -> list[list[int]]:
    """Generate greedily; afterwards the engine holds nothing."""
    for i, prompt in enumerate(prompts):
        sampling = SamplingParams(seed=i, temperature=0.0, max_tokens=new_tokens)
        engine.add(GenerationRequest(id=str(i), prompt_ids=prompt, sampling=sampling))
    events: list[TokenEvent] = []
    while engine.has_work():
        events += engine.step()
    assert engine.failures() == []
    load = engine.load()
    assert (load.kv_blocks_used, load.running, load.waiting) == (0, 0, 0)
    return [[token for e in events if e.request == str(i) for token in e.token_ids] for i in range(len(prompts))]


def engine_around(model: CausalLM, **changes: Any) -> Engine:
    return Engine.from_model(model, replace(SETTINGS, **changes), torch.float32)


@pytest.mark.model
@pytest.mark.timeout(600)
def test_fifty_prompts_in_batches_of_thirty_two(
    theirs: PreTrainedModel, prompts: list[list[int]], expected: list[list[int]]
) -> None:
    chosen = choices(theirs, prompts, expected)
    wrong = [i for i, (ours, theirs) in enumerate(zip(expected, chosen, strict=True)) if ours != theirs]
    assert wrong == [], f"prompts {wrong} differ from what transformers chooses"
    ends = ends_of(theirs)
    assert expected == [until(answer, ends) for answer in expected]
    ended = [answer for answer in expected if len(answer) < NEW_TOKENS]
    assert ended  # some end by themselves
    assert {answer[-1] for answer in ended} <= ends


@pytest.mark.model
def test_log_probabilities_of_prompts(smollm2: CausalLM, theirs: PreTrainedModel, prompts: list[list[int]]) -> None:
    """In chunks, one prompt after it could be found in the cache, equal to those of one pass by `transformers`."""
    some = [prompts[i] for i in (2, 29, 29)]
    engine = engine_around(smollm2, max_num_batched_tokens=37)
    told: dict[str, list[PositionLogprobs]] = {}
    for i, prompt in enumerate(some):
        sampling = SamplingParams(seed=i, temperature=0.0, max_tokens=i % 2, prompt_logprobs=5)
        engine.add(GenerationRequest(id=str(i), prompt_ids=prompt, sampling=sampling))
    while engine.has_work():
        for event in engine.step():
            if event.prompt is not None:
                told.setdefault(event.request, []).extend(event.prompt.logprobs)
    for i, prompt in enumerate(some):
        with torch.inference_mode():
            logits = theirs(torch.tensor([prompt])).logits[0, :-1]
        scores = logits.log_softmax(dim=-1)
        ours = told[str(i)]
        assert [one.chosen.id for one in ours] == prompt[1:]
        found = torch.tensor([one.chosen.logprob for one in ours])
        torch.testing.assert_close(found, scores.gather(1, torch.tensor(prompt[1:])[:, None])[:, 0], atol=2e-3, rtol=0)
        best = torch.tensor([[top.logprob for top in one.top] for one in ours])
        torch.testing.assert_close(best, scores.topk(5).values, atol=2e-3, rtol=0)


VARIANTS: dict[str, dict[str, Any]] = {
    "one at a time": {"max_num_seqs": 1},
    "without prefix cache": {"enable_prefix_caching": False},
    "chunks of 16 tokens": {"max_num_batched_tokens": 16},
    "chunks of 37 tokens": {"max_num_batched_tokens": 37, "max_num_seqs": 8},
    "blocks of 4 tokens": {"block_size": 4},
    "reference attention": {"attention": "reference"},
    "speculation": {"speculation": "ngram"},
}


@pytest.mark.model
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_plan_of_steps_changes_nothing(
    variant: str, smollm2: CausalLM, prompts: list[list[int]], expected: list[list[int]]
) -> None:
    some = slice(3, None, 6)  # eight prompts of all lengths
    found = answers(engine_around(smollm2, **VARIANTS[variant]), prompts[some], 32)
    assert found == [answer[:32] for answer in expected[some]]


@pytest.mark.model
def test_preemption_changes_nothing(smollm2: CausalLM, prompts: list[list[int]], expected: list[list[int]]) -> None:
    some = slice(3, None, 6)
    engine = engine_around(smollm2, num_kv_blocks=24)
    assert answers(engine, prompts[some], 40) == [answer[:40] for answer in expected[some]]
    assert engine.load().preemptions > 0


@pytest.mark.model
def test_prefix_caching_changes_nothing(smollm2: CausalLM, prompts: list[list[int]], expected: list[list[int]]) -> None:
    long = [4, 9]
    engine = engine_around(smollm2)
    for _ in range(2):
        assert answers(engine, [prompts[i] for i in long], 16) == [expected[i][:16] for i in long]
    assert engine.load().prefix_cache_hits >= 2 * (max(LENGTHS) // 16 - 1) * 16


FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {"tie_word_embeddings": True, "head_dim": 16},
    "mistral": {"sliding_window": 9},
    "qwen2": {"use_sliding_window": True, "sliding_window": 7, "max_window_layers": 2},
    "qwen3": {"head_dim": 16},
    "smollm3": {},
    "olmo2": {},
    "gpt_neox": {"num_key_value_heads": 4},
}
PLANS: dict[str, dict[str, Any]] = {
    "plain": {},
    "small chunks": {"max_num_batched_tokens": 8, "max_num_seqs": 3, "block_size": 4},
    "preemption": {"block_size": 4, "num_kv_blocks": 40, "max_model_len": 128},
}


@pytest.mark.parametrize("family", FAMILIES)
def test_each_family_equals_generate(family: str, tmp_path: Path) -> None:
    theirs = save_tiny(tmp_path, family, **FAMILIES[family])
    generator = torch.Generator().manual_seed(11)
    some = [torch.randint(3, 97, (n,), generator=generator).tolist() for n in (1, 5, 18, 33) for _ in range(3)]
    expected = reference(theirs, some, 24)
    model = load_model(resolve(str(tmp_path)), torch.float32, torch.device("cpu"))
    for plan in PLANS.values():
        settings = {"max_model_len": 128, **plan}
        engine = engine_around(model, **settings)
        assert answers(engine, some, 24) == expected, plan
        assert ("num_kv_blocks" in plan) == (engine.load().preemptions > 0)
