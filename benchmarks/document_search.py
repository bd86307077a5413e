"""`python -m benchmarks.document_search`: measures a search index of passages, alone and beside a running engine.

Passages are drawn: words by Zipf's law, vectors around topics. A question is some words of a passage, common ones too,
and its vector with noise. Recall compares the index, whose vectors come from the store's float16, with float32. Writes
`document-search.json`.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import psutil

from benchmarks.engine import add_engine_arguments, engine_under_test
from benchmarks.engine_driver import Driver
from benchmarks.measures import percentile
from benchmarks.report import print_result
from benchmarks.results import RESULTS, Row, make_result, write
from documents.content import Passage
from documents.search.filters import Comparison
from documents.search.index import FileContent, IndexChanges, IndexedFile, Question, SearchQuery
from documents.search.local_index import LocalIndex
from documents.search.vectors import Matrix, normalised, pack_vectors, unpack_vectors
from runtime import logging

DIMENSION = 384
TOPICS = 500
VOCABULARY = 60_000
WORDS = 120
"""Words of a passage, on average."""
PASSAGES_OF_FILE = 100
QUESTION_WORDS = 8
NOISE = 0.6
"""Length of the noise that is added to a passage's vector for a question."""
ENGINE_SEQUENCES = 4
LIMIT = 10
MIB = 2**20
SEED = 27
KINDS: dict[str, dict[str, Any]] = {
    "words and vectors": {},
    "words": {"vector_weight": 0.0},
    "vectors": {"word_weight": 0.0},
    "words and vectors of a third of the files": {"filter": Comparison("part", "eq", 1)},
}
"""Options of the search queries that are measured, by name."""


@dataclass(frozen=True)
class Corpus:
    """Drawn passages: their texts, vectors of length 1, and questions that they answer."""

    texts: Sequence[str]
    vectors: Matrix
    questions: Sequence[Question]


def draw(count: int, questions: int) -> Corpus:
    """Draw `count` passages and questions to some of them."""
    random = np.random.default_rng(SEED)
    syllables = [consonant + vowel for consonant in "bcdfghjklmnprstwz" for vowel in "aeiouy"]
    vocabulary = np.array(["".join(random.choice(syllables, random.integers(2, 5))) for _ in range(VOCABULARY)])
    shares = np.cumsum(1 / np.arange(1, VOCABULARY + 1))
    lengths = random.poisson(WORDS, size=count) + 1
    words = vocabulary[np.searchsorted(shares, random.uniform(0, shares[-1], size=lengths.sum()))]
    texts = [" ".join(each) for each in np.split(words, np.cumsum(lengths)[:-1])]
    topics = random.normal(size=(TOPICS, DIMENSION))
    vectors = normalised(topics[random.integers(TOPICS, size=count)] + random.normal(size=(count, DIMENSION)))
    asked = random.integers(count, size=questions)
    noise = NOISE * normalised(random.normal(size=(questions, DIMENSION)))
    return Corpus(
        texts,
        vectors,
        [
            Question(" ".join(random.choice(texts[row].split(), QUESTION_WORDS)), (vectors[row] + more).tolist())
            for row, more in zip(asked.tolist(), noise, strict=True)
        ],
    )


def build(index: LocalIndex, corpus: Corpus) -> float:
    """Build an index of all passages as it is built from a store, and return the seconds."""
    seconds = 0.0
    for number, start in enumerate(range(0, len(corpus.texts), PASSAGES_OF_FILE)):
        texts = corpus.texts[start : start + PASSAGES_OF_FILE]
        passages = [Passage(text, None, (), 0, len(text), WORDS) for text in texts]
        packed = pack_vectors(corpus.vectors[start : start + PASSAGES_OF_FILE].tolist())
        began = time.perf_counter()
        file = IndexedFile(f"file-{number}", "name", {"part": number % 3}, f"set-{number}", 1)
        content = FileContent(file, passages, unpack_vectors(packed, len(passages)))
        index.apply(IndexChanges(contents=[content], position=number + 1))
        seconds += time.perf_counter() - began
    return seconds


def recall(index: LocalIndex, corpus: Corpus) -> float:
    """Return the share of the nearest passages, by an exact search of all vectors as drawn, that the index finds."""
    found = 0
    for question in corpus.questions:
        cosines = corpus.vectors @ normalised(np.asarray(question.vector, np.float32))
        nearest = set(_texts(corpus, np.argsort(-cosines)[:LIMIT]))
        hits = index.search(SearchQuery([question], limit=LIMIT, word_weight=0.0))
        found += len(nearest & {each.passage.text for each in hits})
    return found / (LIMIT * len(corpus.questions))


def _texts(corpus: Corpus, rows: npt.NDArray[np.int64]) -> Iterator[str]:
    return (corpus.texts[row] for row in rows.tolist())


def measure(index: LocalIndex, corpus: Corpus, load: str) -> list[Row]:
    """Search for every question, by each kind of query in turns, and return a row for each kind."""
    times: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for question in corpus.questions:
        for kind, options in KINDS.items():
            began = time.perf_counter()
            index.search(SearchQuery([question], limit=LIMIT, **options))
            times[kind].append(1000 * (time.perf_counter() - began))
    return [
        {
            "search": kind,
            "beside": load,
            "p50_ms": percentile(times[kind], 50),
            "p95_ms": percentile(times[kind], 95),
            "p99_ms": percentile(times[kind], 99),
        }
        for kind in KINDS
    ]


def _run_engine(arguments: argparse.Namespace, ready: Connection) -> None:
    """Keep an engine busy until the process is terminated."""
    engine = engine_under_test(arguments, ENGINE_SEQUENCES)()
    driver = Driver(engine)
    prompts = np.random.default_rng(SEED).integers(1000, 20_000, size=(ENGINE_SEQUENCES, 128)).tolist()
    while True:
        for prompt in prompts:
            driver.send(prompt, 128)
        driver.finish()
        ready.send(True)


@contextmanager
def running_engine(arguments: argparse.Namespace) -> Iterator[None]:
    """Return a context manager in whose block an engine in another process decodes all the time."""
    spawn = multiprocessing.get_context("spawn")
    receiver, sender = spawn.Pipe(duplex=False)
    process = spawn.Process(target=_run_engine, args=(arguments, sender), daemon=True)
    process.start()
    receiver.recv()
    try:
        yield
    finally:
        process.terminate()
        process.join()


def main(words: Sequence[str] | None = None) -> None:
    """Run `python -m benchmarks.document_search`: build an index, measure searches in it, and write the result file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.document_search", description=__doc__)
    parser.add_argument("--passages", type=int, default=100_000)
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result file")
    add_engine_arguments(parser)
    arguments = parser.parse_args(words)
    logging.configure("benchmark", level="warning")
    corpus = draw(arguments.passages, arguments.questions)
    with tempfile.TemporaryDirectory() as folder:
        index = LocalIndex(Path(folder) / "index")
        built: Row = {"passages": arguments.passages, "build_seconds": build(index, corpus)}
        index.close()
        before = psutil.Process().memory_info().rss
        began = time.perf_counter()
        index = LocalIndex(Path(folder) / "index")
        built["open_seconds"] = time.perf_counter() - began
        built["recall_at_10"] = recall(index, corpus)
        rows = measure(index, corpus, "nothing")
        built["memory_mib"] = (psutil.Process().memory_info().rss - before) / MIB
        built["disk_mib"] = 512 * sum(each.stat().st_blocks for each in (Path(folder) / "index").iterdir()) / MIB
        with running_engine(arguments):
            rows += measure(index, corpus, "an engine with 4 streams")
        index.close()
    settings = {
        "questions": arguments.questions,
        "dimension": DIMENSION,
        "limit": LIMIT,
        "words": WORDS,
        "engine_model": Path(arguments.model).name,
        "seed": SEED,
    }
    result = make_result("document-search", settings, [{**built, **rows[0]}, *rows[1:]])
    path = write(result, arguments.out)
    print_result(result, path)


if __name__ == "__main__":
    main()
