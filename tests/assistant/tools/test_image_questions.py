"""What a request for a picture wants to be drawn, in English and Polish."""

from __future__ import annotations

import time

import pytest

from assistant.tools.image_questions import MAX_QUESTION, image_prompt


@pytest.mark.parametrize(
    ("question", "prompt"),
    [
        ("draw a cat", "a cat"),
        ("Draw me a picture of a red house, please", "a red house"),
        ("Could you paint the sea at night?", "the sea at night"),
        ("Generate an image of two dogs on a beach", "two dogs on a beach"),
        ("I'd like a picture of a castle", "a castle"),
        ("A watercolour of a fox", "A watercolour of a fox"),
        ("draw a man with a sketch of a cat", "a man with a sketch of a cat"),
        ("a monkey painting a fence", "a monkey painting a fence"),
        ("My son loves trains, so draw a tram. Thanks!", "a tram"),
        ("A fox on a hill, draw it", "A fox on a hill"),
        ("kot narysowany kredką", "kot narysowany kredką"),
        ("Stwórz ilustrację do bajki o żabie", "ilustrację do bajki o żabie"),
        ("czy mozesz narysowac kota", "kota"),
        ("narysuj kota w kapeluszu", "kota w kapeluszu"),
        ("Namaluj mi obraz przedstawiający zachód słońca", "zachód słońca"),
        ("Czy możesz narysować smoka?", "smoka"),
        ("wygeneruj zdjęcie psa", "psa"),
        ("proszę o rysunek zamku", "zamku"),
    ],
)
def test_the_words_that_ask_are_left_out(question: str, prompt: str) -> None:
    assert image_prompt(question) == prompt


@pytest.mark.parametrize("question", ["", "please draw", "draw it", "narysuj to", "narysuj obraz", "?!"])
def test_a_request_without_a_subject_names_nothing(question: str) -> None:
    assert image_prompt(question) is None


def test_a_long_request_is_cut() -> None:
    assert len(image_prompt("draw " + "a cat " * 10_000) or "") <= MAX_QUESTION


@pytest.mark.parametrize(
    "piece", ["in ", "((", "draw ", "please ", "a picture of ", "a ", "something ", " please", "!"]
)
def test_long_requests_take_no_time(piece: str) -> None:
    began = time.process_time()
    image_prompt(piece * 50_000)
    assert time.process_time() - began < 0.2
