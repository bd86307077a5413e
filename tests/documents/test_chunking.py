"""Passages follow the structure of a document, have at most the tokens that are asked for, and lose no text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from documents.chunking import ChunkingOptions, divide
from documents.content import Block, Document, Passage

SENTENCE = "Gęślą jaźń i pięć żab w stawie."
WORDS = 7


def words(text: str) -> int:
    """Count words as tokens."""
    return len(text.split())


def characters(text: str) -> int:
    return len(text)


def paragraph(sentences: int, page: int | None = None) -> Block:
    return Block("paragraph", " ".join([SENTENCE] * sentences), page=page)


def heading(text: str, level: int) -> Block:
    return Block("heading", text, level)


def passages(*blocks: Block, most: int, overlap: int = 0) -> list[Passage]:
    document = Document(blocks)
    found = divide(document, words, ChunkingOptions(most, overlap))
    for passage in found:
        assert passage.tokens == words(passage.text) <= most
        assert passage.text.endswith(document.text[passage.start : passage.end])
    return found


def test_a_short_document_is_one_passage() -> None:
    document = Document((heading("Żaby", 1), paragraph(2, page=3)), pages=3)
    [passage] = divide(document, words, ChunkingOptions(800, 400))
    assert passage == Passage(document.text, None, ("Żaby",), 0, len(document.text), 1 + 2 * WORDS)


def test_a_document_without_text_has_no_passages() -> None:
    assert divide(Document(()), words, ChunkingOptions(800, 400)) == []


def test_passages_end_between_paragraphs() -> None:
    found = passages(paragraph(3), paragraph(3), paragraph(3), most=5 * WORDS)
    assert [passage.text for passage in found] == [paragraph(3).text] * 3


def test_long_paragraphs_are_divided_between_sentences() -> None:
    found = passages(paragraph(10), most=4 * WORDS)
    assert [passage.tokens for passage in found] == [4 * WORDS, 4 * WORDS, 2 * WORDS]
    assert all(passage.text.endswith("stawie.") for passage in found)


def test_passages_of_one_section_overlap() -> None:
    found = passages(paragraph(8), most=4 * WORDS, overlap=2 * WORDS)
    assert [(passage.start, passage.end) for passage in found] == [
        (start * (len(SENTENCE) + 1), (start + 4) * (len(SENTENCE) + 1) - 1) for start in (0, 2, 4)
    ]


def test_a_passage_has_its_headings_and_begins_with_the_last() -> None:
    blocks = (
        heading("Stawy", 1),
        paragraph(4),
        heading("Żaby", 2),
        heading("Rzekotki", 3),
        paragraph(4),
        heading("Ryby", 2),
        paragraph(4),
    )
    found = passages(*blocks, most=5 * WORDS, overlap=2 * WORDS)
    assert [(passage.heading_path, passage.text.split("\n")[0]) for passage in found] == [
        (("Stawy",), "Stawy"),
        (("Stawy", "Żaby", "Rzekotki"), "Żaby"),
        (("Stawy", "Ryby"), "Ryby"),
    ]


def test_short_sections_share_a_passage_under_their_common_heading() -> None:
    blocks = [heading("Stawy", 1)]
    for name in ("Żaby", "Ryby"):
        blocks += [heading(name, 2), paragraph(1)]
    [passage] = passages(*blocks, most=100)
    assert passage.heading_path == ("Stawy",)


def test_a_passage_does_not_end_with_a_heading() -> None:
    found = passages(paragraph(4), heading("Żaby", 1), paragraph(4), most=4 * WORDS + 1)
    assert [passage.text.split("\n")[0] for passage in found] == [paragraph(4).text, "Żaby"]


def test_pieces_of_a_table_repeat_its_header() -> None:
    rows = [f"| płaz {number} | {number} |" for number in range(20)]
    table = Block("table", "\n".join(["| nazwa | liczba |", "| --- | --- |", *rows]), page=2)
    document = Document((table,))
    found = passages(table, most=40)
    assert all(passage.text.startswith("| nazwa | liczba |\n| --- | --- |\n| płaz ") for passage in found)
    assert [row for passage in found for row in passage.text.split("\n")[2:]] == rows
    assert [document.text[passage.start : passage.end].split("\n")[-1] for passage in found] == [
        passage.text.split("\n")[-1] for passage in found
    ]
    assert {passage.page for passage in found} == {2}


def test_a_header_that_would_take_most_of_a_passage_is_not_repeated() -> None:
    table = Block("table", "| a very long name of a column | b |\n| --- | --- |\n| 1 | 2 |\n| 3 | 4 |")
    assert [passage.text.count("---") for passage in passages(table, most=17)] == [2, 0]


def test_code_is_divided_between_lines() -> None:
    code = Block("code", "\n".join(f"    x = {number}" for number in range(10)))
    found = passages(code, most=7)
    assert found[0].text == "    x = 0\n    x = 1"
    assert len(found) == 5


def test_a_passage_has_the_page_that_it_begins_on() -> None:
    found = passages(paragraph(4, page=1), paragraph(4, page=2), most=4 * WORDS)
    assert [passage.page for passage in found] == [1, 2]


def test_text_without_spaces_is_divided() -> None:
    document = Document((Block("paragraph", "ż" * 1000),))
    found = divide(document, characters, ChunkingOptions(100, 50))
    assert max(passage.tokens for passage in found) <= 100
    assert found[-1].end == 1000


def test_a_character_of_more_tokens_than_a_passage_may_have_is_a_passage() -> None:
    found = divide(Document((Block("paragraph", "😀😀"),)), lambda text: 4 * len(text), ChunkingOptions(3, 0))
    assert [passage.text for passage in found] == ["😀", "😀"]


KINDS = st.sampled_from(["paragraph", "list", "code", "heading", "table"])
TEXTS = st.text(st.sampled_from("ab żó😀.\n|-!?"), min_size=1, max_size=120).filter(lambda text: text.strip() == text)


@given(
    st.lists(st.builds(Block, KINDS, TEXTS, st.integers(1, 3)), max_size=8),
    st.integers(8, 40),
    st.integers(0, 20),
    st.sampled_from([words, characters]),
)
def test_no_text_is_lost(blocks: list[Block], most: int, overlap: int, count: object) -> None:
    document = Document(tuple(blocks))
    found = divide(document, count, ChunkingOptions(most, overlap))  # type: ignore[arg-type]
    covered: set[int] = set()
    for before, passage in zip([None, *found], found, strict=False):
        assert before is None or (before.start < passage.start and before.end < passage.end)
        assert passage.tokens <= most
        covered.update(range(passage.start, passage.end))
    assert all(index in covered for index in (match.start() for match in re.finditer(r"\S", document.text)))


@pytest.mark.parametrize("kind", ["paragraph", "code", "table"])
def test_dividing_takes_linear_time(kind: str) -> None:
    counted = 0

    def count(text: str) -> int:
        nonlocal counted
        counted += len(text)
        return len(text) // 4

    divide(Document((Block(kind, "x" * 300_000),)), count, ChunkingOptions(800, 400))  # type: ignore[arg-type]
    assert counted < 300_000 * 12


@pytest.mark.parametrize(
    ("kind", "text"), [("paragraph", "a。"), ("paragraph", "a. "), ("code", "a\n"), ("table", "|\n")]
)
def test_short_sentences_and_lines_are_counted_together(kind: str, text: str) -> None:
    counts = 0

    def count(counted: str) -> int:
        nonlocal counts
        counts += 1
        return len(counted)

    length = 20_000
    found = divide(Document((Block(kind, (text * length)[:length].rstrip()),)), count, ChunkingOptions(400, 50))  # type: ignore[arg-type]
    assert len(found) >= length // 400
    assert counts < length // 8


def test_a_short_sentence_does_not_divide_a_long_one() -> None:
    found = passages(Block("paragraph", f"Tak. {SENTENCE} Nie. {SENTENCE}"), most=WORDS + 1)
    assert [passage.text for passage in found] == [f"Tak. {SENTENCE}", f"Nie. {SENTENCE}"]


def test_a_long_run_of_full_stops_takes_linear_time() -> None:
    document = Document((Block("paragraph", "." * 500_000),))
    assert divide(document, characters, ChunkingOptions(400, 0))[-1].end == 500_000
