"""`python -m benchmarks.retrieval FOLDER`: scores the search in vector stores on a data set in BEIR's layout.

`headrace up` serves the embedding model; documents are imported by `/v1/vector_stores` with each way to cut them, and
searched by words, by vectors, and by both. Questions are refused as for users (`only_if_relevant`). All figures are of
`--split`; ranking and limits of the product are tuned on the split `dev` of the default data set. Writes
`retrieval.json`, for other folders than the default `retrieval-NAME.json`.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import openai

from benchmarks.client import Endpoint
from benchmarks.report import print_lines, print_result, print_rows
from benchmarks.results import RESULTS, ROOT, Row, Value, make_result, write
from benchmarks.retrieval.data_set import DataSet, Query, read
from benchmarks.retrieval.scoring import Accepted, Searched, answer_place, score
from benchmarks.retrieval.vector_stores import LIMIT, Corpus, Options
from benchmarks.servers import headrace_in
from runtime import lifecycle, logging

FOLDER = ROOT / "benchmarks" / "data" / "halden"
EMBEDDING_MODEL = ROOT / ".headrace" / "models" / "all-minilm-l6-v2"
AUTO = "auto"
RANKINGS: Mapping[str, Options] = {
    "words": {"hybrid_search": {"embedding_weight": 0.0, "text_weight": 1.0}},
    "vectors": {"hybrid_search": {"embedding_weight": 1.0, "text_weight": 0.0}},
    "hybrid": {},
}
SUBSETS: Mapping[str, Callable[[Query], bool]] = {
    "English": lambda query: query.language == "en",
    "Polish": lambda query: query.language == "pl",
    "same words": lambda query: query.kind == "answerable" and query.wording == "same",
    "other words": lambda query: query.kind == "answerable" and query.wording == "other",
    "near misses": lambda query: query.kind == "near miss",
}
"""Queries that are scored apart too, with the first way to cut documents, where the data set distinguishes them."""


def chunking_strategy(name: str) -> Options:
    """Return the chunking strategy of the API that `name` stands for: `auto`, or tokens and overlap as `160/40`."""
    if name == AUTO:
        return {"type": "auto"}
    tokens, _, overlap = name.partition("/")
    return {
        "type": "static",
        "static": {"max_chunk_size_tokens": int(tokens), "chunk_overlap_tokens": int(overlap or 0)},
    }


async def measure(endpoint: Endpoint, data: DataSet, arguments: argparse.Namespace) -> list[Row]:
    """Import the documents in each way to cut them, search in each ranking, and return a row for each pair."""
    queries = list(data.queries[arguments.split])
    rows: list[Row] = []
    async with openai.AsyncOpenAI(base_url=endpoint.base_url, api_key=endpoint.api_key, max_retries=10) as api:
        corpus = await Corpus.upload(api, data.documents)
        for chunking in arguments.chunking:
            store = await corpus.index(chunking_strategy(chunking))
            passages = await corpus.passages(store)
            cut: Row = {"chunking": chunking, "passages": sum(map(len, passages.values()))}
            for ranking, options in RANKINGS.items():
                searched = await corpus.search(store, queries, options)
                accepted = await corpus.accepted(store, queries, options)
                of: Row = {**cut, "ranking": ranking}
                rows.append({**of, "of": "all", **score(queries, searched, accepted)})
                if chunking == arguments.chunking[0]:
                    rows += [{**of, **each} for each in subset_rows(queries, searched, accepted)]
                if arguments.missed:
                    print_lines(missed(queries, searched))
    return sorted(rows, key=lambda row: row["of"] != "all")


def subset_rows(queries: Sequence[Query], searched: Searched, accepted: Accepted) -> list[Row]:
    """Return a row for each subset that has some of the queries, and not all."""
    subsets = {name: [each for each in queries if belongs(each)] for name, belongs in SUBSETS.items()}
    return [
        {"of": name, **score(subset, searched, accepted)}
        for name, subset in subsets.items()
        if 0 < len(subset) < len(queries)
    ]


def missed(queries: Sequence[Query], searched: Searched) -> list[Row]:
    """Return a row for each answerable query whose first passage does not answer it."""
    return [
        {
            "query": each.text,
            "place": place,
            "document": next(iter(each.grades)),
            "first": searched[each.id][0].document,
        }
        for each in queries
        if each.is_answerable and searched[each.id] and (place := answer_place(each, searched[each.id])) != 1
    ]


async def run(arguments: argparse.Namespace) -> None:
    """Run a platform in a temporary home, measure, and write the result unless it is a dry run."""
    if (task := asyncio.current_task()) is not None:  # on SIGTERM, stop the platform's processes too
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    data = read(arguments.folder)
    variables = {"HEADRACE_MAX_WAIT": "600"}
    with (
        TemporaryDirectory(prefix="headrace-bench-") as folder,
        headrace_in(Path(folder), arguments.model, variables) as endpoint,
    ):
        rows = await measure(endpoint, data, arguments)
    name = "retrieval" if arguments.folder.resolve() == FOLDER else f"retrieval-{data.name}"
    if arguments.dry_run:
        print_rows(rows, name)
        return
    settings: dict[str, Value] = {
        "data": data.name,
        "documents": len(data.documents),
        "split": arguments.split,
        "model": arguments.model.name,
        "limit": LIMIT,
    }
    result = make_result(name, settings, rows)
    print_result(result, write(result, arguments.out))


def main(words: Sequence[str] | None = None) -> None:
    """Run `python -m benchmarks.retrieval`: score the search on a data set, and write the result file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.retrieval", description=__doc__)
    parser.add_argument(
        "folder", type=Path, nargs="?", default=FOLDER, help="data set; default: benchmarks/data/halden"
    )
    parser.add_argument("--split", default="test", help="split of the queries that are scored")
    parser.add_argument(
        "--chunking",
        nargs="+",
        default=[AUTO, "160/40", "100/0"],
        help="ways to cut documents: auto, or tokens and overlap",
    )
    parser.add_argument("--model", type=Path, default=EMBEDDING_MODEL, help="folder of the embedding model")
    parser.add_argument("--missed", action="store_true", help="print the queries whose first passage is no answer")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result file")
    parser.add_argument("--dry-run", action="store_true", help="write no result")
    logging.configure("benchmark", level="warning")
    lifecycle.run(run(parser.parse_args(words)))


if __name__ == "__main__":
    main()
