"""`python -m benchmarks.embedding`: measures how fast pages are embedded, and what an import does to chats' TTFT.

Speed: pages are imported into a vector store, as a file each and as files of ten pages, and their passages embedded by
`/v1/embeddings` and, in turns on the same cores, by Sentence Transformers in an environment of its own. Beside chats:
people's requests arrive at random (Poisson, seeded) at a chat model, in turns without and beside an import, which a
second worker embeds. Everything shares this machine's cores. Writes `embedding.json` and `embedding-beside-chats.json`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import openai

from benchmarks.batches import People, people_timelines
from benchmarks.client import Endpoint
from benchmarks.measures import Timeline, median, milliseconds, percentile
from benchmarks.peers.sentence_transformers import SentenceTransformers
from benchmarks.report import print_result, print_rows
from benchmarks.results import RESULTS, Row, Value, make_result, write
from benchmarks.retrieval.__main__ import EMBEDDING_MODEL, FOLDER
from benchmarks.retrieval.data_set import CorpusDocument, read
from benchmarks.retrieval.vector_stores import Corpus
from benchmarks.servers import headrace_in, headrace_worker
from infra.home import environment
from infra.home.settings import LauncherSettings
from infra.launcher.readiness import free_port
from runtime import lifecycle, logging

PAGE_WORDS = 400
"""Words of a page."""
FILE_PAGES = 10
"""Pages of each longer file."""
REQUEST_TEXTS, REQUESTS = 64, 4
"""Texts of each request to `/v1/embeddings`, and requests at once."""
AUTO = {"type": "auto"}
WAITING = {"HEADRACE_MAX_WAIT": "600"}
SAME_VECTOR = 0.999
"""Least cosine of the same text's vectors by two implementations of a model."""


class VectorsDiffer(Exception):
    """Raised when Headrace and the peer have different vectors for the same text."""


def draw_pages(count: int, seed: int) -> list[CorpusDocument]:
    """Return `count` pages of plain text, each of sentences drawn from the English documents of the data set."""
    documents = [each.text for each in read(FOLDER).documents if each.id.startswith("en-")]
    lines = [line for text in documents for line in text.splitlines() if line and line[0].isalpha()]
    sentences = [f"{each.strip(' .')}." for line in lines for each in line.split(". ")]
    random = np.random.default_rng(seed)
    pages = []
    for number in range(count):
        words: list[str] = []
        while len(words) < PAGE_WORDS:
            words += sentences[int(random.integers(len(sentences)))].split()
        pages.append(CorpusDocument(f"page-{seed}-{number}", "", f"Page {number} of {seed}. {' '.join(words)}"))
    return pages


def bind_pages(pages: Sequence[CorpusDocument]) -> list[CorpusDocument]:
    """Return documents of `FILE_PAGES` pages each, the last one perhaps of fewer, each page a paragraph."""
    bound = [pages[start : start + FILE_PAGES] for start in range(0, len(pages), FILE_PAGES)]
    return [CorpusDocument(f"from-{each[0].id}", "", "\n\n".join(page.text for page in each)) for each in bound]


@dataclass
class Speeds:
    """Seconds of each round, by what was measured, and the passages of the pages of the last one."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    passages: int = 0

    def add(self, name: str, seconds: float) -> None:
        """Add the seconds of a round."""
        self.seconds.setdefault(name, []).append(seconds)

    def rows(self, pages: int, peer: str) -> list[Row]:
        """Return a row for each measurement: its median, and its rate over that of the peer."""
        best = median(self.seconds[peer])
        return [
            {
                "embedded_by": name,
                "seconds": median(seconds),
                "low": min(seconds),
                "high": max(seconds),
                "pages_per_second": pages / median(seconds),
                "passages_per_second": self.passages / median(seconds),
                "rate_over_peer": best / median(seconds),
            }
            for name, seconds in self.seconds.items()
        ]


async def measure_speed(arguments: argparse.Namespace, peer: SentenceTransformers) -> list[Row]:
    """Embed pages by Headrace and by the peer, in turns; return a row for each.

    Raises:
        VectorsDiffer: their vectors differ.
    """
    speeds = Speeds()
    for number in range(arguments.rounds):
        pages = draw_pages(arguments.pages, number)
        with (
            TemporaryDirectory(prefix="headrace-bench-") as folder,
            headrace_in(Path(folder), arguments.model, WAITING) as endpoint,
        ):
            texts, vector = await _embed_by_headrace(endpoint, pages, speeds)
        seconds, peers_vector = await asyncio.to_thread(peer.embed, texts)
        if (cosine := float(np.dot(vector, peers_vector))) < SAME_VECTOR:
            raise VectorsDiffer(f"the cosine of both vectors is {cosine:.4f}")
        speeds.add(peer.name, seconds)
        speeds.passages = len(texts)
    return speeds.rows(arguments.pages, peer.name)


async def _embed_by_headrace(
    endpoint: Endpoint, pages: Sequence[CorpusDocument], speeds: Speeds
) -> tuple[list[str], list[float]]:
    """Import pages and embed their passages, and add the seconds; return the passages, and the first one's vector."""
    async with openai.AsyncOpenAI(base_url=endpoint.base_url, api_key=endpoint.api_key, max_retries=10) as api:
        corpus, longer = await Corpus.upload(api, pages), await Corpus.upload(api, bind_pages(pages))
        began = time.perf_counter()
        store = await corpus.index(AUTO)
        speeds.add("import of one-page files", time.perf_counter() - began)
        began = time.perf_counter()
        await longer.index(AUTO)
        speeds.add("import of ten-page files", time.perf_counter() - began)
        texts = [text for texts in (await corpus.passages(store)).values() for text in texts]
        places = asyncio.Semaphore(REQUESTS)

        async def embed(start: int) -> list[float]:
            async with places:
                given = texts[start : start + REQUEST_TEXTS]
                return (await api.embeddings.create(model=endpoint.model, input=given)).data[0].embedding

        began = time.perf_counter()
        vectors = await asyncio.gather(*(embed(start) for start in range(0, len(texts), REQUEST_TEXTS)))
        speeds.add("/v1/embeddings", time.perf_counter() - began)
        return texts, vectors[0]


@dataclass
class BesideImport:
    """People's requests, without an import or beside one, and the pages that were imported meanwhile."""

    timelines: list[Timeline] = field(default_factory=list)
    pages: int = 0
    seconds: float = 0.0
    fewest_left: int | None = None

    def row(self, load: People, name: str, without: tuple[float, float] | None) -> Row:
        """Return the result row; `without` are p50 and p95 of TTFT in seconds without an import."""
        good = [each for each in self.timelines if each.succeeded]
        firsts = [each.ttft for each in good]
        middle, last = percentile(firsts, 50), percentile(firsts, 95)
        return {
            "people": load.name,
            "requests_per_second": load.rate,
            "tokens": f"{load.inputs} in, {load.outputs} out",
            "import": name,
            "requests": len(self.timelines),
            "failed": len(self.timelines) - len(good),
            "ttft_p50_ms": milliseconds(middle),
            "ttft_p95_ms": milliseconds(last),
            "ttft_p50_over_without": middle / without[0] if middle and without else None,
            "ttft_p95_over_without": last / without[1] if last and without else None,
            "pages_imported_per_second": self.pages / self.seconds if self.seconds else None,
            "fewest_pages_left": self.fewest_left,
        }


async def measure_chats(chat: Endpoint, loads: Sequence[People], arguments: argparse.Namespace) -> list[Row]:
    """Measure people's requests without and beside an import, in turns; return a row for each."""
    found = {(load.name, beside): BesideImport() for load in loads for beside in (False, True)}
    seed = 0
    async with openai.AsyncOpenAI(base_url=chat.base_url, api_key=chat.api_key, max_retries=10) as api:
        await people_timelines(chat, loads[0], 5.0, 0, 0)
        for number in range(arguments.rounds):
            for load in loads:
                for beside in (False, True) if number % 2 == 0 else (True, False):
                    seed += 1
                    measured = found[load.name, beside]
                    if not beside:
                        measured.timelines += await people_timelines(chat, load, arguments.seconds, number, seed)
                        continue
                    async with _import(api, draw_pages(arguments.pages, 1000 + seed)) as store:
                        before, began = await _imported(api, store), time.perf_counter()
                        measured.timelines += await people_timelines(chat, load, arguments.seconds, number, seed)
                        after = await _imported(api, store)
                        measured.pages += after - before
                        measured.seconds += time.perf_counter() - began
                        left = arguments.pages - after
                        measured.fewest_left = left if measured.fewest_left is None else min(left, measured.fewest_left)
    rows = []
    for load in loads:
        alone = found[load.name, False]
        firsts = [each.ttft for each in alone.timelines if each.succeeded]
        middle, last = percentile(firsts, 50), percentile(firsts, 95)
        without = None if middle is None or last is None else (middle, last)
        rows += [alone.row(load, "without", without), found[load.name, True].row(load, "beside", without)]
    return rows


@asynccontextmanager
async def _import(api: openai.AsyncOpenAI, pages: Sequence[CorpusDocument]) -> AsyncIterator[str]:
    """Import pages in the block, which begins when some are imported; provides the vector store's id."""
    corpus = await Corpus.upload(api, pages)
    store = await corpus.attach(AUTO)
    while await _imported(api, store) < len(pages) // 50:  # noqa: ASYNC110 - there is no event for it
        await asyncio.sleep(0.2)
    try:
        yield store
    finally:
        await api.vector_stores.delete(store)


async def _imported(api: openai.AsyncOpenAI, store: str) -> int:
    return (await api.vector_stores.retrieve(store)).file_counts.completed


async def run(arguments: argparse.Namespace) -> None:
    """Measure, and write the results unless it is a dry run."""
    if (task := asyncio.current_task()) is not None:  # on SIGTERM, stop the platform's processes too
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    settings: dict[str, Value] = {
        "model": arguments.model.name,
        "pages": arguments.pages,
        "page_words": PAGE_WORDS,
        "rounds": arguments.rounds,
    }
    if "speed" in arguments.part:
        folder = environment.load(LauncherSettings).folder.path / "peers"
        peer = SentenceTransformers(folder, arguments.model.resolve(), os.cpu_count() or 1)
        await asyncio.to_thread(peer.install)
        rows = await measure_speed(arguments, peer)
        _publish("embedding", settings, rows, arguments, {peer.name: peer.version()})
    if "chats" in arguments.part:
        model = Path(environment.load(LauncherSettings).model_or_default)
        port = free_port()
        loads = [People("conversations", arguments.rate, 64, 32)]
        with (
            TemporaryDirectory(prefix="headrace-bench-") as home,
            headrace_in(Path(home), model, {**WAITING, "HEADRACE_RABBITMQ_PORT": str(port)}) as chat,
            headrace_worker(Path(home), arguments.model, port, chat),
        ):
            rows = await measure_chats(chat, loads, arguments)
        settings |= {"chat_model": model.name, "seconds": arguments.seconds, "seed": 1}
        _publish("embedding-beside-chats", settings, rows, arguments, {})


def _publish(
    name: str,
    settings: Mapping[str, Value],
    rows: Sequence[Row],
    arguments: argparse.Namespace,
    versions: Mapping[str, str],
) -> None:
    if arguments.dry_run:
        print_rows(rows, name)
        return
    result = make_result(name, settings, rows, versions)
    print_result(result, write(result, arguments.out))


def main(words: Sequence[str] | None = None) -> None:
    """Run `python -m benchmarks.embedding`: measure the embedding of pages, and write the result files."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.embedding", description=__doc__)
    parser.add_argument("--part", nargs="+", choices=["speed", "chats"], default=["speed", "chats"])
    parser.add_argument("--pages", type=int, default=1000, help="pages of each import")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, each with all measurements in turns")
    parser.add_argument("--seconds", type=float, default=30.0, help="seconds of each measurement of chats")
    parser.add_argument("--rate", type=float, default=1.0, help="people's requests per second")
    parser.add_argument("--model", type=Path, default=EMBEDDING_MODEL, help="folder of the embedding model")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result files")
    parser.add_argument("--dry-run", action="store_true", help="write no result")
    logging.configure("benchmark", level="warning")
    lifecycle.run(run(parser.parse_args(words)))


if __name__ == "__main__":
    main()
