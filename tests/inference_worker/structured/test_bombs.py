"""Schema bombs and floods of schemas do not affect the engine and leak nothing."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import psutil
import pytest

from inference_worker.errors import GrammarRejected, PromptRejected
from inference_worker.structured import sandbox
from inference_worker.structured.sandbox import GrammarSandbox
from inference_worker.structured.sandbox_process import TOO_COMPLEX
from inference_worker.worker.text.model_limits import ModelLimits
from inference_worker.worker.text.processor import TextProcessor
from router.messages import Grammar, Job, SamplingParams, TextPrompt
from tests.contract.examples import JOB
from tests.fakes.counting_text import VOCAB_SIZE, counting_text
from tests.fakes.tiny_model import TinyModel, tiny_engine
from tests.inference_worker import generation
from tests.inference_worker.structured.test_matchers import VOCABULARY, grammar
from tests.inference_worker.structured.test_sandbox import BOMBS

LIMITS = ModelLimits(max_model_len=1000, vocab_size=VOCAB_SIZE)


@pytest.fixture
def text() -> Iterator[TextProcessor]:
    made = counting_text()
    made.warm_up()
    yield made
    made.close()


def job(number: int, of: Grammar) -> Job:
    sampling = SamplingParams(seed=1, max_tokens=5)
    return msgspec.structs.replace(JOB, id=str(number), prompt=TextPrompt("a"), sampling=sampling, grammar=of)


async def test_bombs_do_not_slow_down_a_running_stream(text: TextProcessor) -> None:
    await text.prepare(job(0, grammar("regex", "a")), "warm", LIMITS)
    engine = tiny_engine(TinyModel(max_position=100_000), num_kv_blocks=20_000, max_model_len=50_000)
    engine.add(generation.request("canary", [5, 6, 7], max_tokens=40_000))
    engine.step()
    refused: list[str] = []

    async def arrive(number: int, bomb: Grammar) -> int:
        before = steps
        try:
            await text.prepare(job(number, bomb), f"bomb{number}", LIMITS)
        except PromptRejected as error:
            refused.append(str(error))
        return steps - before

    steps, longest = 0, 0.0
    bombs = [bomb for bomb in BOMBS for _ in range(2)]
    burst = asyncio.gather(*(arrive(number, bomb) for number, bomb in enumerate(bombs)))
    last = time.process_time()
    while not burst.done():
        steps += bool(engine.step())
        await asyncio.sleep(0)
        now = time.process_time()
        longest, last = max(longest, now - last), now
    during = await burst
    # A bomb that compiles lazily is accepted; any other is rejected, or its child is killed.
    assert any(TOO_COMPLEX in reason for reason in refused)
    assert max(during) > 10
    assert longest < 3  # compiling one in this process takes longer


async def test_many_schemas_leak_neither_memory_nor_processes_nor_files(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run through the whole `TextProcessor`, with its sandbox process."""
    monkeypatch.chdir(tmp_path)
    for folder in ("HOME", "TMPDIR", "XDG_CACHE_HOME"):
        monkeypatch.setenv(folder, str(tmp_path))
    text: TextProcessor = request.getfixturevalue("text")  # created here, so that its process inherits the variables
    await text.prepare(job(0, grammar("regex", "a")), "warm", LIMITS)
    this = psutil.Process()
    assert text._sandbox._process is not None
    grammars = psutil.Process(text._sandbox._process._process.pid)  # other children: a broker of other tests
    helpers, before = len(this.children()), _resident(this, grammars)
    for number in range(150):
        schema = {"type": "object", "properties": {f"p{number}": {"type": "integer", "maximum": number}}}
        await text.prepare(job(number, grammar("json_schema", schema)), f"r{number}", LIMITS)
    assert _resident(this, grammars) - before < 50 * 2**20
    assert (len(this.children()), grammars.children()) == (helpers, [])
    assert list(tmp_path.rglob("*")) == []  # noqa: ASYNC240


async def test_the_result_cache_s_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    grammars = GrammarSandbox(VOCABULARY)

    async def refuse(of: Grammar) -> str | None:
        return hashlib.sha256(of.source.encode()).hexdigest() * 7 if int(of.source) % 2 else None

    monkeypatch.setattr(grammars, "_request_check", refuse)
    this = psutil.Process()
    before = _resident(this)
    for number in range(2 * sandbox.CACHE_SIZE):
        with suppress(GrammarRejected):
            await grammars.check(grammar("lark", str(number)))
    assert len(grammars._results) == sandbox.CACHE_SIZE
    assert _resident(this) - before < 50 * 2**20


def _resident(*processes: psutil.Process) -> int:
    """Return the resident bytes of the processes."""
    return sum(one.memory_info().rss for one in processes)
