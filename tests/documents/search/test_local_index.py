"""Search index in a folder: ranks, scores, filters, changes, erasure, damaged files, and those of a killed process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from documents.content import Passage
from documents.search.filters import Comparison
from documents.search.index import FileContent, IndexChanges, IndexedFile, Question, SearchQuery
from documents.search.local_index import DATABASE, VECTORS, LocalIndex
from documents.search.vectors import normalised

TEXTS = {
    "lease": ["Umowa najmu lokalu mieszkalnego.", "Kaucja jest zwracana w ciągu miesiąca od opróżnienia lokalu."],
    "work": ["Pracownik ma prawo do urlopu wypoczynkowego.", "Okres wypowiedzenia wynosi trzy miesiące."],
    "invoice": ["Invoice AG-2042 for the delivery of a copper kettle.", "The total is to be paid in thirty days."],
}
WORDS: dict[str, Any] = {"vector_weight": 0.0}
VECTORS_ONLY: dict[str, Any] = {"word_weight": 0.0}


def content(key: str, texts: list[str], revision: int = 1, **attributes: Any) -> FileContent:
    """A file whose passages have vectors that depend on their text alone."""
    passages = [Passage(text, 1, ("Dokument",), 0, len(text), 9) for text in texts]
    file = IndexedFile(key, f"{key}.pdf", attributes, f"set-{key}-{revision}", revision)
    return FileContent(file, passages, np.array([vector(text) for text in texts], np.float32))


def vector(text: str) -> list[float]:
    return normalised(np.random.default_rng(zlib.crc32(text.encode())).normal(size=16)).tolist()


def changes(position: int = 1, **fields: Any) -> IndexChanges:
    return IndexChanges(position=position, **fields)


@pytest.fixture
def index(tmp_path: Path) -> LocalIndex:
    made = LocalIndex(tmp_path / "index")
    years = {"lease": 2024.0, "work": 2025.0, "invoice": 2026.0}
    made.apply(changes(contents=[content(key, texts, year=years[key]) for key, texts in TEXTS.items()]))
    return made


def found(index: LocalIndex, text: str, like: str | None = None, **options: Any) -> list[tuple[str, int]]:
    question = Question(text, None if like is None else vector(like))
    return [(each.file.key, each.number) for each in index.search(SearchQuery([question], **options))]


def test_words_are_found_in_any_inflection_and_ranked_by_rarity(index: LocalIndex) -> None:
    assert found(index, "zwrot kaucji za lokal", **WORDS) == [("lease", 1), ("lease", 0)]
    assert found(index, "copper kettles", **WORDS) == [("invoice", 0)]
    assert found(index, "ag-2042", **WORDS) == [("invoice", 0)]
    assert found(index, "submarine", **WORDS) == found(index, "?!", **WORDS) == []


def test_an_expired_file_is_not_found(index: LocalIndex, tmp_path: Path) -> None:
    index.close()
    now = [100.0]
    again = LocalIndex(tmp_path / "index", clock=lambda: now[0])
    before = again.files["invoice"]
    again.apply(changes(renamed=[replace(before, expires=101.0, revision=2)]))
    assert found(again, "copper kettles", **WORDS) == [("invoice", 0)]
    now[0] = 101.0
    assert found(again, "copper kettles", **WORDS) == []
    assert found(again, "", TEXTS["invoice"][0], filter=Comparison("year", "eq", 2026.0)) == []
    assert {key for key, _ in found(again, "", TEXTS["invoice"][0])} == {"lease", "work"}


def test_nothing_is_found_if_no_passage_fits(index: LocalIndex) -> None:
    assert found(index, "Ile wynosi okres wypowiedzenia?", requires_relevance=True, **WORDS)[0] == ("work", 1)
    assert found(index, "Ile wynosi kara za opóźnienie?", **WORDS) == [("work", 1)]
    assert found(index, "Ile wynosi kara za opóźnienie?", requires_relevance=True, **WORDS) == []
    like = TEXTS["lease"][0]
    assert found(index, "Wo?", like, requires_relevance=True)[0] == ("lease", 0)
    assert len(found(index, "Wo?", like, requires_relevance=True)) == 6
    assert found(index, "Wo?", "another text", requires_relevance=True) == []


def test_the_nearest_vector_comes_first(index: LocalIndex) -> None:
    hits = index.search(SearchQuery([Question("", vector(TEXTS["work"][1]))], limit=2, **VECTORS_ONLY))
    assert (hits[0].file.key, hits[0].number, hits[0].passage.text) == ("work", 1, TEXTS["work"][1])
    assert hits[0].score == pytest.approx(1, abs=1e-5)
    assert len(hits) == 2
    assert hits[1].score < 0.9


def test_scores_by_words_and_by_vectors_are_added(index: LocalIndex) -> None:
    assert found(index, "kaucja", like=TEXTS["lease"][1])[0] == ("lease", 1)
    by_vector = found(index, "kettle", like=TEXTS["work"][0], vector_weight=1000.0)
    assert by_vector[0] == ("work", 0)
    assert found(index, "kettle", like=TEXTS["work"][0], word_weight=1000.0)[0] == ("invoice", 0)
    several = SearchQuery([Question("kettle"), Question("kaucja")], limit=2)
    assert {each.file.key for each in index.search(several)} == {"invoice", "lease"}


def test_a_score_tells_a_passage_that_fits_from_one_that_does_not(index: LocalIndex) -> None:
    def best(text: str, like: str) -> float:
        return max(each.score for each in index.search(SearchQuery([Question(text, vector(like))])))

    assert best("copper kettle", "unlike anything") == 1
    assert best("unrelated words", TEXTS["work"][0]) == pytest.approx(1, abs=1e-5)
    low = best("price of a submarine in Gdynia", "unlike anything at all")
    assert low < 0.75
    assert found(index, "price of a submarine in Gdynia", like="unlike anything at all", threshold=low + 0.01) == []
    assert found(index, "copper kettle", threshold=1.0) == [("invoice", 0)]


def test_only_files_that_pass_the_filter_are_searched(index: LocalIndex) -> None:
    since: dict[str, Any] = {"filter": Comparison("year", "gte", 2025)}
    assert found(index, "kaucja lokal", **WORDS, **since) == []
    like = TEXTS["lease"][0]
    assert {key for key, _ in found(index, "", like=like, **VECTORS_ONLY, **since)} == {"work", "invoice"}
    assert found(index, "kettle", **WORDS, **since) == [("invoice", 0)]
    assert found(index, "kettle", like=like, filter=Comparison("year", "eq", 1999)) == []


def test_the_limit_bounds_the_hits(index: LocalIndex) -> None:
    assert len(found(index, "", like="x", limit=3, **VECTORS_ONLY)) == 3
    assert len(found(index, "", like="x", limit=50, **VECTORS_ONLY)) == 6


def test_a_changed_file_has_only_its_new_passages(index: LocalIndex) -> None:
    index.apply(changes(2, contents=[content("lease", ["Nowa treść o garażu."], revision=2)]))
    assert found(index, "kaucja lokal", **WORDS) == []
    assert found(index, "garaż", **WORDS) == [("lease", 0)]
    assert len(found(index, "", like="x", **VECTORS_ONLY)) == 5
    assert (index.position, index.files["lease"].revision) == (2, 2)


def test_parts_of_a_file_are_its_passages_in_order(index: LocalIndex) -> None:
    texts = [f"Fragment numer {number}" for number in range(5)]
    whole = content("lease", texts, 2)
    for start in (0, 2, 4):
        rows = slice(start, start + 2)
        part = replace(whole, passages=whole.passages[rows], vectors=whole.vectors[rows], start=start)
        index.apply(IndexChanges(contents=[part]))
    assert [found(index, text, like=text)[0] for text in texts] == [("lease", number) for number in range(5)]
    assert found(index, "kaucja", **WORDS) == []


def test_attributes_are_replaced_without_new_passages(index: LocalIndex) -> None:
    file = IndexedFile("lease", "najem.pdf", {"year": 2026.0}, "set-lease-1", 2)
    index.apply(changes(2, renamed=[file]))
    hits = index.search(SearchQuery([Question("kaucja")], filter=Comparison("year", "eq", 2026)))
    assert [each.file for each in hits] == [file]


def test_a_removed_file_leaves_no_word_and_no_vector_in_the_folder(index: LocalIndex, tmp_path: Path) -> None:
    folder = tmp_path / "index"
    secret = np.array([vector("Hasło brzmi mandragora.")], np.float32)
    index.apply(changes(2, contents=[content("secret", ["Hasło brzmi mandragora."])]))
    assert found(index, "mandragora", **WORDS) == [("secret", 0)]
    assert secret.tobytes() in (folder / VECTORS).read_bytes()
    index.apply(changes(3, removed=["secret", "unknown"]))
    assert found(index, "mandragora", **WORDS) == []
    assert len(found(index, "", like="x", **VECTORS_ONLY)) == 6
    index.erase_remains()
    index.close()
    for each in folder.iterdir():
        assert b"mandragor" not in each.read_bytes(), each
    assert secret.tobytes() not in (folder / VECTORS).read_bytes()


def test_rows_of_removed_passages_are_used_again(index: LocalIndex, tmp_path: Path) -> None:
    index.apply(changes(2, removed=["work", "lease"]))
    texts = [f"Paragraf {number} o kaucji" for number in range(5)]
    index.apply(changes(3, contents=[content("lease", texts, revision=2)]))
    assert sorted(found(index, "kaucja", **WORDS)) == [("lease", number) for number in range(5)]
    assert found(index, "", like=texts[4], **VECTORS_ONLY)[0] == ("lease", 4)
    assert found(index, "", like=TEXTS["invoice"][0], **VECTORS_ONLY)[0] == ("invoice", 0)
    again = LocalIndex(tmp_path / "index")
    assert found(again, "", like=texts[4], **VECTORS_ONLY)[0] == ("lease", 4)


def test_an_index_is_as_it_was_when_it_is_opened_again(index: LocalIndex, tmp_path: Path) -> None:
    index.close()
    again = LocalIndex(tmp_path / "index")
    assert (again.position, again.files) == (1, index.files)
    assert found(again, "kaucja", like=TEXTS["lease"][1])[0] == ("lease", 1)


def test_a_file_without_passages_is_kept_and_never_found(tmp_path: Path) -> None:
    index = LocalIndex(tmp_path / "index")
    assert found(index, "kaucja", like="x") == []
    empty = FileContent(IndexedFile("scan", "scan.pdf", {}, "set", 1), [], np.empty((0, 16), np.float32))
    index.apply(changes(contents=[empty]))
    assert list(index.files) == ["scan"]
    assert found(index, "kaucja", like="x") == []


@pytest.mark.parametrize("damaged", [DATABASE, VECTORS])
def test_a_damaged_index_begins_anew(index: LocalIndex, tmp_path: Path, damaged: str) -> None:
    index.close()
    path = tmp_path / "index" / damaged
    path.write_bytes(b"damaged" * 100 if damaged == DATABASE else b"")
    again = LocalIndex(tmp_path / "index")
    assert (again.position, again.files) == (0, {})
    again.apply(changes(contents=[content("lease", TEXTS["lease"])]))
    assert found(again, "kaucja", **WORDS) == [("lease", 1)]


def test_changes_that_fail_leave_the_index_as_it_was(index: LocalIndex) -> None:
    whole = content("new", ["Nowa treść.", "Druga treść."])
    without_vector = FileContent(whole.file, [*whole.passages, whole.passages[0]], whole.vectors)
    with pytest.raises(ValueError, match="shape mismatch"):
        index.apply(changes(2, removed=["work"], contents=[without_vector]))
    assert index.position == 1
    assert found(index, "urlop", **WORDS) == [("work", 0)]


def test_searches_beside_changes_find_whole_passages(index: LocalIndex) -> None:
    everything = {(key, number) for key in TEXTS for number in range(9)}

    def search() -> None:
        for _ in range(30):
            assert everything.issuperset(found(index, "kaucja lokal", like=TEXTS["invoice"][0]))

    threads = [threading.Thread(target=search) for _ in range(3)]
    for each in threads:
        each.start()
    for revision in range(2, 12):
        index.apply(changes(revision, contents=[content("lease", TEXTS["lease"] * (revision % 4), revision)]))
    for each in threads:
        each.join()  # a failure in a thread fails the test
    assert index.position == 11


KILLED = """
import sys
from pathlib import Path
from documents.search.local_index import LocalIndex
from tests.documents.search.test_local_index import TEXTS, changes, content
index = LocalIndex(Path(sys.argv[1]))
print("open", flush=True)
for revision in range(2, 10_000):
    texts = [f"Wersja {revision} kaucji {number}" for number in range(revision % 7 + 1)]
    index.apply(changes(revision, contents=[content("lease", texts, revision)]))
    print(revision, flush=True)
"""


@pytest.mark.parametrize("revisions", [1, 3, 8])
def test_a_killed_process_leaves_a_whole_index(index: LocalIndex, tmp_path: Path, revisions: int) -> None:
    index.close()
    folder = tmp_path / "index"
    command = [sys.executable, "-c", KILLED, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        printed = [process.stdout.readline() for _ in range(revisions + 1)]
        os.kill(process.pid, signal.SIGKILL)
    again = LocalIndex(folder)
    revision = again.position
    assert revision >= int(printed[-1])
    assert again.files["lease"].revision == revision
    expected = [f"Wersja {revision} kaucji {number}" for number in range(revision % 7 + 1)]
    hits = again.search(SearchQuery([Question("kaucja")], limit=50))
    assert sorted(each.passage.text for each in hits) == expected
    for number, text in enumerate(expected):
        assert found(again, "", like=text, **VECTORS_ONLY)[0] == ("lease", number)
