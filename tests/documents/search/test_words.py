"""Terms of texts: stems and lemmas of words, without case and diacritics, by which other forms are found."""

from __future__ import annotations

import pytest

from documents.search import words
from documents.search.words import MAX_QUERY_WORDS, MAX_TERM, query_terms, terms_of


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("umowa", "Strony zawarły umowę o pracę."),
        ("wypowiedzenie umów", "Okres wypowiedzenia umowy wynosi trzy miesiące i jest liczony od końca miesiąca."),
        ("kaucje", "Kaucja nie jest zwracana, jeżeli lokal został zniszczony przez najemcę."),
        ("pracownikowi urlopu", "Pracownik ma prawo do urlopów wypoczynkowych."),
        ("KSIĄŻKA", "Autorka napisała książki dla dzieci."),
        ("umowe o prace", "Strony zawarły umowę o pracę."),
        ("dni tygodnia", "Dzień siódmy każdego tygodnia jest wolny."),
        ("psa", "Najemca nie trzyma psów ani kotów."),
        ("mieście Gdynia", "Sąd właściwy dla miasta Gdyni."),
        ("lokalu", "Najemca oddaje lokal w stanie niepogorszonym."),
        ("running contracts", "The contract runs until the end of the year."),
        ("Zażółć", "zazolc, czyli wyraz, który jest bez znaków"),
        ("AG-2042/7", "The order AG-2042/7 is confirmed."),
    ],
)
def test_a_word_is_found_in_another_form(query: str, text: str) -> None:
    terms = set(terms_of(text))
    for alternatives in query_terms(query):
        assert alternatives & terms, alternatives


@pytest.mark.parametrize(
    ("query", "text"), [("umowa", "Strony piją kawę i nie ma nic do zrobienia."), ("cat", "The category is new.")]
)
def test_a_different_word_is_not_found(query: str, text: str) -> None:
    (alternatives,) = query_terms(query)
    assert not alternatives & set(terms_of(text))


def test_function_words_of_a_query_are_left_out_unless_it_has_no_others() -> None:
    (found,) = query_terms("What is the WEIGHT?")
    assert found & set(terms_of("weights"))
    assert query_terms("Ile to waży?") == query_terms("waży")
    assert len(query_terms("co to jest")) == 3
    assert query_terms("who is in IT") == query_terms("IT")
    assert query_terms("in May") == query_terms("May")


def test_a_query_is_read_until_it_has_enough_words(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[str] = []

    def terms(word: str) -> tuple[str, ...]:
        looked_up.append(word)
        return (word,)

    monkeypatch.setattr(words, "_terms", terms)
    query_terms(" ".join(f"same w{number}" for number in range(5000)))
    assert len(looked_up) == MAX_QUERY_WORDS
    assert looked_up[:3] == ["same", "w0", "w1"]


def test_a_long_word_is_remembered_by_its_beginning() -> None:
    assert terms_of("x" * 100_000) == terms_of("x" * 1000) == ["x" * MAX_TERM]


def test_a_query_has_each_word_once_and_not_too_many() -> None:
    assert len(query_terms("Umowa umowy UMOWĘ, kaucja")) == 2
    assert len(query_terms(" ".join(f"w{number}" for number in range(500)))) == MAX_QUERY_WORDS
    assert query_terms("?! ...") == terms_of("?! ...") == []
