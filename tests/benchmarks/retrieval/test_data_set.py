"""Reading of data sets in BEIR's layout, and the data set of this repository."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.retrieval.__main__ import FOLDER
from benchmarks.retrieval.data_set import UNANSWERABLE, normalised, read


def write_lines(path: Path, lines: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_folder_without_metadata_has_the_graded_queries_of_each_split(tmp_path: Path) -> None:
    write_lines(
        tmp_path / "corpus.jsonl", [{"_id": "d1", "title": "Cats", "text": "They purr."}, {"_id": "d2", "text": "x"}]
    )
    write_lines(tmp_path / "queries.jsonl", [{"_id": f"q{number}", "text": "?"} for number in range(3)])
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq0\td1\t2\nq0\td2\t0\n")
    (tmp_path / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td2\t1\n")
    data = read(tmp_path)
    assert [each.markdown for each in data.documents] == ["# Cats\n\nThey purr.\n", "x\n"]
    ((query,), (other,)) = data.queries["test"], data.queries["train"]
    assert (query.id, query.grades, other.id) == ("q0", {"d1": 2}, "q1")
    assert query.is_answered_by("d1", "any passage")
    assert not query.is_answered_by("d2", "any passage")


def test_every_answer_is_quoted_from_its_document_once() -> None:
    data = read(FOLDER)
    texts = {each.id: normalised(each.markdown) for each in data.documents}
    queries = [query for split in data.queries.values() for query in split]
    for query in queries:
        assert query.is_answerable == bool(query.answers), query
        assert query.grades.keys() == {each.document for each in query.answers}, query
        for answer in query.answers:
            assert texts[answer.document].count(normalised(answer.quote)) == 1, answer


def test_the_data_set_has_two_languages_near_misses_and_unanswerable_queries_in_both_halves() -> None:
    data = read(FOLDER)
    assert Counter(each.id[:2] for each in data.documents) == {"en": 30, "pl": 30}
    queries = [query for split in data.queries.values() for query in split]
    assert len({each.id for each in queries}) == len({each.text for each in queries}) == 200
    assert Counter(each.kind for each in queries) == {"answerable": 150, "near miss": 25, UNANSWERABLE: 25}
    for split in ("dev", "test"):
        counts = Counter((each.language, each.kind) for each in data.queries[split])
        assert len(counts) == 6
        assert min(counts.values()) >= 5
