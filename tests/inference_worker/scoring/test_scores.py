"""Scores of tiny models of each layout equal a plain reference on `transformers`, one input at a time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from inference_worker.engine.input_batches.engine import CPU_BATCH_TOKENS
from inference_worker.errors import BadWeights, PromptRejected, UnsupportedModel
from inference_worker.model_files.model_source import resolve
from router.messages import FailureCode, ScorePrompt, Task
from tests.fakes.tiny_scorers import (
    save_answer_model,
    save_pair_model,
    save_step_model,
    save_tagged_model,
)
from tests.inference_worker.scoring.scores import load

QUERY = "where is lodz?"
DOCUMENTS = ["in poland.", "the mill wheel turns in the water 4 times", "x", "9" * 40]
QUESTION = "What is 2 + 2 * 3?"
STEPS = [["Multiply: 6."], ["Add 2 and 2.", "That is 4, times 3 is 12.", "Łódź ки <extra_0> 12"], ["8", "8"]]


def chat(answer: str, question: str = QUESTION) -> str:
    """The conversation as the template of the tiny models writes it."""
    return f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n{answer}<|im_end|>\n"


def close(ours: Sequence[Sequence[float]], reference: Sequence[Sequence[float]]) -> bool:
    assert [len(each) for each in ours] == [len(each) for each in reference]
    pairs = [(a, b) for one, other in zip(ours, reference, strict=True) for a, b in zip(one, other, strict=True)]
    assert max(abs(a - b) for a, b in pairs) < 1e-5, (ours, reference)
    return True


@pytest.mark.parametrize("model_type", ["bert", "roberta"])
async def test_cross_encoders(tmp_path: Path, model_type: str) -> None:
    model, tokenizer = save_pair_model(tmp_path, model_type)
    reference = []
    for document in DOCUMENTS:
        pair = tokenizer.encode(QUERY, document)
        arguments = {"input_ids": torch.tensor([pair.ids])}
        if model_type == "bert":
            arguments["token_type_ids"] = torch.tensor([pair.type_ids])
        with torch.no_grad():
            reference.append(model(**arguments).logits[0].tolist())
    scores = load(tmp_path)
    assert resolve(str(tmp_path)).task is Task.SCORE
    assert scores.text.scores_pairs
    assert close(await scores([QUERY], list(DOCUMENTS), raw=True), reference)
    sigmoids = [torch.tensor(each).sigmoid().tolist() for each in reference]
    assert close(await scores([QUERY] * 4, list(DOCUMENTS)), sigmoids)


@pytest.mark.parametrize("model_type", ["bert", "roberta", "distilbert"])
@pytest.mark.parametrize("problem", ["multi_label_classification", "single_label_classification", None])
async def test_classifiers(tmp_path: Path, model_type: str, problem: str | None) -> None:
    names = {0: "toxic", 1: "threat", 2: "insult"}
    model, tokenizer = save_pair_model(tmp_path, model_type, num_labels=3, id2label=names, problem_type=problem)
    several = problem == "multi_label_classification"
    reference, raw = [], []
    for text in DOCUMENTS:
        with torch.no_grad():
            logits = model(torch.tensor([tokenizer.encode(text).ids])).logits[0]
        raw.append(logits.tolist())
        reference.append((logits.sigmoid() if several else logits.softmax(dim=-1)).tolist())
    scores = load(tmp_path)
    assert resolve(str(tmp_path)).task is Task.SCORE
    assert (scores.text.labels, scores.text.scores_pairs) == (["toxic", "threat", "insult"], True)
    assert close(await scores([""], list(DOCUMENTS)), reference)
    assert close(await scores([""], list(DOCUMENTS), raw=True), raw)


async def test_what_a_classifier_rejects(tmp_path: Path) -> None:
    save_pair_model(tmp_path, num_labels=2)
    scores = load(tmp_path)
    assert scores.text.labels == ["LABEL_0", "LABEL_1"]
    with pytest.raises(PromptRejected, match="/v1/moderations"):
        await scores([QUERY], DOCUMENTS)
    with pytest.raises(PromptRejected, match="cuts no texts"):
        await scores.prepared(ScorePrompt(contexts=[""], candidates=["a"]), truncate_prompt_tokens=-1)
    with pytest.raises(PromptRejected, match="maximum context length") as caught:
        await scores([""], ["a word " * 500])
    assert caught.value.code is FailureCode.CONTEXT_LENGTH_EXCEEDED


@pytest.mark.parametrize("model_type", ["llama", "qwen2", "qwen3"])
async def test_outcome_reward_models(tmp_path: Path, model_type: str) -> None:
    model, tokenizer = save_answer_model(tmp_path, model_type)
    answers = ["8", "It is 8, for products come first." * 3]
    reference = []
    for answer in answers:
        ids = tokenizer.encode(chat(answer), add_special_tokens=False).ids
        with torch.no_grad():
            reference.append(model(torch.tensor([ids])).logits[0].tolist())
    scores = load(tmp_path)
    assert not scores.text.scores_pairs
    assert close(await scores([QUESTION], answers, raw=True), reference)
    conversation = [{"role": "user", "content": [{"type": "text", "text": QUESTION}]}]
    assert close(await scores([conversation], answers, raw=True), reference)


async def test_a_decoder_without_a_chat_template_scores_pairs(tmp_path: Path) -> None:
    model, tokenizer = save_answer_model(tmp_path, "qwen3")
    (tmp_path / "tokenizer_config.json").unlink()
    ids = tokenizer.encode(QUERY, DOCUMENTS[0]).ids
    with torch.no_grad():
        reference = model(torch.tensor([ids])).logits[0].tolist()
    assert close(await load(tmp_path)([QUERY], DOCUMENTS[:1], raw=True), [reference])


def process_scores(states: Tensor, head: dict[str, Tensor]) -> Tensor:
    """What the model card of Qwen2.5-Math-PRM computes: probabilities of the labels, the second is the score."""
    hidden = torch.relu(states @ head["score.0.weight"].T + head["score.0.bias"])
    return torch.softmax(hidden @ head["score.2.weight"].T + head["score.2.bias"], dim=-1)[..., 1]


async def test_qwens_process_reward_model(tmp_path: Path) -> None:
    base, head, tokenizer = save_step_model(tmp_path, "Qwen2ForProcessRewardModel")
    end = tokenizer.token_to_id("<extra_0>")
    reference = []
    for steps in STEPS[:1] + STEPS[2:]:
        ids = tokenizer.encode(chat("".join(f"{step}<extra_0>" for step in steps)), add_special_tokens=False).ids
        with torch.no_grad():
            probabilities = process_scores(base(torch.tensor([ids])).last_hidden_state[0], head)
        reference.append(probabilities[torch.tensor(ids) == end].tolist())
    scores = load(tmp_path)
    assert close(await scores([QUESTION], [*STEPS[:1], *STEPS[2:]]), reference)
    assert close(await scores([QUESTION], ["\n\n".join(STEPS[2])]), reference[1:])
    (own,) = await scores([QUESTION], [STEPS[1]])
    assert len(own) == 3, "the control token in a step is text"


async def test_qwens_outcome_reward_model(tmp_path: Path) -> None:
    base, head, tokenizer = save_step_model(tmp_path, "Qwen2ForRewardModel")
    ids = tokenizer.encode(chat("8\n\n9"), add_special_tokens=False).ids
    with torch.no_grad():
        last = base(torch.tensor([ids])).last_hidden_state[0, -1]
    hidden = torch.relu(last @ head["score.0.weight"].T + head["score.0.bias"])
    reference = (hidden @ head["score.2.weight"].T + head["score.2.bias"]).tolist()
    scores = load(tmp_path)
    assert close(await scores([QUESTION], ["8\n\n9", ["8", "9"]], raw=True), [reference] * 2)


@pytest.mark.parametrize("architecture", ["Qwen2ForPrmModel", "LlamaForPrmModel"])
async def test_skyworks_process_reward_model(tmp_path: Path, architecture: str) -> None:
    base, head, tokenizer = save_step_model(tmp_path, architecture)
    reference = []
    for steps in (STEPS[0], STEPS[2]):
        ids = tokenizer.encode(f"{QUESTION}\n").ids  # begins with <|endoftext|>
        read = []
        for step in steps:
            ids += tokenizer.encode(f"{step}\n", add_special_tokens=False).ids
            read.append(len(ids) - 1)
        with torch.no_grad():
            states = base(torch.tensor([ids])).last_hidden_state[0, read]
        values = states @ head["v_head.summary.weight"].T + head["v_head.summary.bias"]
        reference.append(values[:, 0].sigmoid().tolist())
    assert close(await load(tmp_path)([QUESTION], [STEPS[0], STEPS[2]]), reference)


async def test_math_shepherd(tmp_path: Path) -> None:
    model, tokenizer = save_tagged_model(tmp_path)
    labels = tokenizer.encode("+ -", add_special_tokens=False).ids
    assert len(labels) == 2
    reference = []
    for steps in STEPS:
        text, read = f"{QUESTION} ", []
        for number, step in enumerate(steps):
            text += f"{step} ки" if number == 0 else f"\n{step} ки"
            read.append(len(tokenizer.encode(text.replace("<extra_0>", "<extra_1>")).ids) - 1)
        plain = text.replace("<extra_0>", "<extra_1>")
        with torch.no_grad():
            logits = model(torch.tensor([tokenizer.encode(plain).ids])).logits[0]
        reference.append(logits[read][:, labels].softmax(dim=-1)[:, 0].tolist())
    scores = load(tmp_path, "ки")
    plain_steps = [[step.replace("<extra_0>", "<extra_1>") for step in steps] for steps in STEPS]
    assert close(await scores([QUESTION], plain_steps), reference)
    assert len((await scores([QUESTION], [STEPS[1]]))[0]) == 3
    assert resolve(str(tmp_path)).task is Task.GENERATE


async def test_batches_are_fair_and_bounded(tmp_path: Path) -> None:
    save_pair_model(tmp_path)
    scores = load(tmp_path)
    large = await scores.prepared(ScorePrompt(contexts=["q"], candidates=["a" * 100] * 20), "large")
    small = await scores.prepared(ScorePrompt(contexts=["q"], candidates=["b"]), "small")
    scores.engine.add(large)
    scores.engine.add(small)
    first = scores.engine.step()
    assert {event.request for event in first} == {"large"}
    assert len(first) * 104 <= CPU_BATCH_TOKENS
    assert "small" in {event.request for event in scores.engine.step()}
    scores.engine.abort("large")
    assert not scores.engine.has_work()
    resumed = await scores.prepared(ScorePrompt(contexts=["q"], candidates=["a", "b", "c"]), "resumed")
    assert [index for index, _ in scores.run(type(resumed)(id="r", inputs=resumed.inputs, done=[0, 2]))] == [1]


@pytest.mark.parametrize(("limit", "query", "document"), [(23, 10, 10), (28, 10, 15), (33, 10, 20), (-1, 10, 20)])
async def test_the_longer_text_of_a_pair_is_cut_first(tmp_path: Path, limit: int, query: int, document: int) -> None:
    _, tokenizer = save_pair_model(tmp_path)
    prompt = ScorePrompt(contexts=["a" * 10], candidates=["b" * 20])
    (pair,) = (await load(tmp_path).prepared(prompt, truncate_prompt_tokens=limit)).inputs
    assert pair.ids == tokenizer.encode("a" * query, "b" * document).ids
    assert pair.second_from == query + 2


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"contexts": ["q"], "candidates": ["a " * 200]}, "documents"),
        ({"contexts": ["q"], "candidates": ["a" * 400 * 130]}, "documents"),
        ({"contexts": ["q"], "candidates": ["a"] * 2049}, "documents"),
        ({"contexts": ["q", "q"], "candidates": ["a"]}, "documents"),
        ({"contexts": [[{"role": "user", "content": "q"}]], "candidates": ["a"]}, "messages"),
        ({"contexts": ["q"], "candidates": ["a"], "truncate_prompt_tokens": 4}, "truncate_prompt_tokens"),
        ({"contexts": ["q"], "candidates": ["a"], "truncate_prompt_tokens": 129}, "truncate_prompt_tokens"),
    ],
)
async def test_rejected_pairs(tmp_path: Path, fields: dict[str, Any], param: str) -> None:
    save_pair_model(tmp_path)
    kept = fields.pop("truncate_prompt_tokens", None)
    with pytest.raises(PromptRejected) as rejected:
        await load(tmp_path).prepared(ScorePrompt(**fields, param="documents"), truncate_prompt_tokens=kept)
    assert rejected.value.param == param
    if len(fields["candidates"][0]) > 1:
        assert rejected.value.code is FailureCode.CONTEXT_LENGTH_EXCEEDED


async def test_rejected_answers(tmp_path: Path) -> None:
    save_step_model(tmp_path, "Qwen2ForProcessRewardModel")
    scores = load(tmp_path)
    with pytest.raises(PromptRejected, match="no step"):
        await scores([QUESTION], ["\n\n \n\n"])
    with pytest.raises(PromptRejected, match="not truncated"):
        await scores.prepared(ScorePrompt(contexts=["q"], candidates=["a"]), truncate_prompt_tokens=-1)


def change(folder: Path, **fields: Any) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | fields))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"model_type": "llama", "id2label": {"0": "a", "1": "b"}}, "2 labels"),
        ({"model_type": "gpt2"}, "gpt2 is not served"),
        ({"sbert_ce_default_activation_function": "os.system"}, "activation"),
        ({"sentence_transformers": {"activation_fn": "torch.nn.modules.activation.Tanh"}}, "activation"),
    ],
)
def test_models_that_are_not_served(tmp_path: Path, fields: dict[str, Any], message: str) -> None:
    save_pair_model(tmp_path)
    change(tmp_path, **fields)
    with pytest.raises(UnsupportedModel, match=message):
        load(tmp_path)


async def test_the_activation_function_of_the_folder(tmp_path: Path) -> None:
    save_pair_model(tmp_path)
    raw = await load(tmp_path)([QUERY], DOCUMENTS, raw=True)
    change(tmp_path, sbert_ce_default_activation_function="torch.nn.modules.linear.Identity")
    assert await load(tmp_path)([QUERY], DOCUMENTS) == raw


def test_a_head_of_another_shape(tmp_path: Path) -> None:
    save_step_model(tmp_path, "Qwen2ForRewardModel")
    change(tmp_path, architectures=["Qwen2ForProcessRewardModel"])
    with pytest.raises(BadWeights, match=r"score.2"):
        load(tmp_path)
    change(tmp_path, architectures=["Qwen2ForPrmModel"])
    with pytest.raises(BadWeights, match="v_head"):
        load(tmp_path)
