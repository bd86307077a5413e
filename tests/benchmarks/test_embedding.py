"""Pages of the benchmark of embedding are bound to longer files."""

from __future__ import annotations

from benchmarks.embedding import FILE_PAGES, bind_pages
from benchmarks.retrieval.data_set import CorpusDocument


def test_each_page_is_a_paragraph_of_one_longer_file() -> None:
    pages = [CorpusDocument(f"page-{number}", "", f"Page {number}.") for number in range(FILE_PAGES + 2)]
    first, second = bind_pages(pages)
    assert first.text.split("\n\n") == [each.text for each in pages[:FILE_PAGES]]
    assert (second.id, second.text) == (f"from-page-{FILE_PAGES}", "Page 10.\n\nPage 11.")
