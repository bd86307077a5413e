"""Imports files while gateways, embedding workers and the store are killed with SIGKILL, and judges what is left.

Each file must be imported whole, with each paragraph once, in the store and in searches; each block of passages must be
billed once, and the ledger have no difference.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import openai

from auth_billing.errors import StoreUnavailable
from infra.accounts import embedded_store
from infra.home.process_records import kill_group
from tests.chaos.engine_stack import EngineStack
from tests.chaos.kill_storm import PATIENCE, Say, StormOutcome
from tests.chaos.stack import Size, Stack, running
from tests.model_fixtures import EMBEDDING_MODEL

GATEWAYS, EMBEDDERS = 2, 2
NOTES = 200
"""Paragraphs of a file."""
NOTE = "This item is in the room at the end of the corridor, on the second shelf from above, near the window."
CHUNKING: Any = {"type": "static", "static": {"max_chunk_size_tokens": 100, "chunk_overlap_tokens": 0}}
"""So that a file is several blocks of passages, which do not overlap."""


@dataclass(frozen=True)
class Plan:
    """Number of kills, each up to `pause` seconds after `files` more files were attached and an import has advanced."""

    kills: int
    files: int
    pause: float
    seed: int = 1


@dataclass(kw_only=True)
class Outcome(StormOutcome):
    """One run, judged."""

    plan: Plan
    files: list[str] = field(default_factory=list)
    """Ids of the files in order of their numbers."""
    blocks: int = 0
    """Blocks of passages that are stored."""
    resumed: int = 0
    """Number of times that a gateway went on with an import that another process or try had begun."""


class EmbedderStack(EngineStack):
    """A platform whose workers embed."""

    @property
    def model(self) -> str:
        """Name of the embedding model."""
        return "minilm"

    @property
    def weights(self) -> Path:
        """Folder of the embedding model."""
        return EMBEDDING_MODEL


async def storm(plan: Plan, say: Say, keep: Path) -> Outcome:
    """Run a plan on a platform of its own; its logs and all that was wrong are copied to the folder `keep`.

    Raises:
        StartupError: The platform did not start.
    """
    outcome = Outcome(plan=plan)
    async with running(Size(GATEWAYS, EMBEDDERS), kind=EmbedderStack) as stack, _clients(stack) as clients:
        store = (await clients[0].vector_stores.create(name="notes")).id
        began = time.monotonic()
        for victim, pause in islice(_victims(plan.seed, stack), plan.kills):
            async with asyncio.timeout(PATIENCE):
                while not (
                    unfinished := await _interrupted(outcome, stack, clients, store, victim, pause * plan.pause)
                ):
                    say(f"  {victim} is not killed yet: all files are imported")
            kill_group(stack.record(victim).pid)
            outcome.killed[victim] += 1
            outcome.seconds = time.monotonic() - began
            say(f"  {outcome.seconds:.0f} s: killed {victim}; {unfinished} files are not imported yet")
        async with asyncio.timeout(PATIENCE):
            while (counts := (await clients[0].vector_stores.retrieve(store)).file_counts).in_progress:
                await asyncio.sleep(0.2)
        if (counts.completed, counts.failed) != (len(outcome.files), 0):
            failed = [each.last_error async for each in clients[0].vector_stores.files.list(store, filter="failed")]
            outcome.broken.append(f"{counts.completed} of {len(outcome.files)} files were imported; failures: {failed}")
        await _check_files(outcome, clients[0], store)
        await _check_store(outcome, stack)
        await _check_bills(outcome, stack)
        await _check_searches(outcome, clients, store)
        outcome.write(stack, keep)
    return outcome


def _victims(seed: int, stack: Stack) -> Iterator[tuple[str, float]]:
    """Draw the process of each kill, of each kind in turn, and its moment as a share of the plan's pause."""
    draw = random.Random(seed)
    while True:
        kinds = [draw.choice(stack.gateways), draw.choice(stack.workers), embedded_store.NAME]
        draw.shuffle(kinds)
        for kind in kinds:
            yield kind, draw.random()


async def _interrupted(
    outcome: Outcome, stack: Stack, clients: Sequence[openai.AsyncOpenAI], store: str, victim: str, pause: float
) -> int:
    """Attach files and return how many are not imported `pause` seconds after their import began."""
    while not all(stack.process(name) and stack.is_ready(name) for name in [victim, *stack.workers]):
        await asyncio.sleep(0.1)
    before = await _blocks(stack)
    await _attach(outcome, clients, store)
    while await _blocks(stack) == before:
        await asyncio.sleep(0.05)
    await asyncio.sleep(pause)
    return await _unfinished(stack)


@asynccontextmanager
async def _clients(stack: Stack) -> AsyncIterator[list[openai.AsyncOpenAI]]:
    """Provide a client of each gateway, which repeats what a killed process has interrupted."""
    async with AsyncExitStack() as opened:
        urls = [f"http://127.0.0.1:{port}/v1" for port in stack.ports.values()]
        made = [openai.AsyncOpenAI(base_url=url, api_key=stack.key, max_retries=50, timeout=60) for url in urls]
        yield [await opened.enter_async_context(each) for each in made]


async def _attach(outcome: Outcome, clients: Sequence[openai.AsyncOpenAI], store: str) -> None:
    """Upload further files and attach them in a batch, at the gateways in turn."""
    client = clients[len(outcome.files) // outcome.plan.files % len(clients)]
    new = []
    for _ in range(outcome.plan.files):
        number = len(outcome.files) + len(new)
        new.append((await client.files.create(file=(f"{number}.md", _notes(number)), purpose="assistants")).id)
    await client.vector_stores.file_batches.create(store, file_ids=new, chunking_strategy=CHUNKING)
    outcome.files += new


def _notes(number: int) -> bytes:
    return "\n\n".join(f"About item {number}x{note}. {NOTE}" for note in range(NOTES)).encode()


async def _blocks(stack: Stack) -> int:
    return await _count(stack, "passage_blocks", {})


async def _unfinished(stack: Stack) -> int:
    return await _count(stack, "vector_store_files", {"state": "in_progress"})


async def _count(stack: Stack, collection: str, query: dict[str, Any]) -> int:
    """Count documents of the store as soon as it answers."""
    while True:
        with suppress(StoreUnavailable):
            return int(await stack.access.connection.durable(collection).count_documents(query))
        await asyncio.sleep(0.2)


async def _check_files(outcome: Outcome, client: openai.AsyncOpenAI, store: str) -> None:
    """Read each file's passages through the API."""
    for number, id in enumerate(outcome.files):
        passages = (await client.vector_stores.files.content(id, vector_store_id=store)).data
        items = [item for each in passages for item in re.findall(r"About item (\S+)\.", str(each.text))]
        if items != [f"{number}x{note}" for note in range(NOTES)]:
            outcome.broken.append(f"file {number} has the items {items}")


async def _check_searches(outcome: Outcome, clients: Sequence[openai.AsyncOpenAI], store: str) -> None:
    """Search for a paragraph of the last file at each gateway."""
    last = len(outcome.files) - 1
    for client in clients:
        found = (await client.vector_stores.search(store, query=f"item {last}x17", max_num_results=50)).data
        texts = [each.content[0].text for each in found]
        if found[0].filename != f"{last}.md" or f"item {last}x17." not in texts[0]:
            outcome.broken.append(f"a search found {found[0].filename}: {texts[0]}")
        if len(set(texts)) != len(texts):
            outcome.broken.append("a search found a passage twice")


async def _check_store(outcome: Outcome, stack: Stack) -> None:
    """Look for passages in the store that are missing, doubled, unfinished or of no file."""
    connection = stack.access.connection
    sets = {each["_id"]: each async for each in connection.durable("passage_sets").find()}
    files = [each async for each in connection.durable("vector_store_files").find()]
    numbers: dict[str, list[int]] = {id: [] for id in sets}
    async for block in connection.durable("passage_blocks").find():
        numbers.setdefault(block["set"], []).append(int(block["_id"].rpartition("/")[2]))
    outcome.blocks = sum(map(len, numbers.values()))
    outcome.resumed = sum(each["claims"] - 1 for each in files)
    if sorted(each["passages"] for each in files) != sorted(sets):
        outcome.broken.append(f"{len(files)} files have {len(sets)} sets of passages")
    for id, each in sets.items():
        if (each["state"], each["kept"], sorted(numbers.pop(id))) != ("ready", 1, list(range(each["blocks"]))):
            outcome.broken.append(f"the set of passages {id} is {each}")
    if numbers:
        outcome.broken.append(f"there are blocks of no set: {numbers}")


async def _check_bills(outcome: Outcome, stack: Stack) -> None:
    """Compare the jobs that were billed with the blocks that are stored."""
    evidence = await outcome.judge_books(stack)
    billed = [each for each in evidence.jobs.values() if each.billed.prompt]
    if len(billed) != outcome.blocks:
        outcome.misbilled.append(f"{len(billed)} jobs were billed for {outcome.blocks} blocks")
