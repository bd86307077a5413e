"""Tesseract is called as a library: its languages, and the time of a page."""

from __future__ import annotations

import os

import pytest
from PIL import Image

from documents.parsing import tesseract
from documents.parsing.tesseract import GreyImage, PageTimeout, Tesseract, TesseractUnavailable
from tests.documents.parsing.scanned import ENGLISH, POLISH, page, require_tesseract


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    require_tesseract()
    monkeypatch.setenv("OMP_THREAD_LIMIT", "1")  # so that the test does not change it for later ones


def grey(image: Image.Image) -> GreyImage:
    return GreyImage(image.tobytes(), image.width, image.height, image.width, 0)


@pytest.mark.parametrize(("languages", "line"), [("", POLISH[0]), ("pol", POLISH[1]), ("eng", ENGLISH[0])])
def test_text_is_recognised_in_the_languages(languages: str, line: str) -> None:
    engine = Tesseract(languages)
    for _ in range(2):
        hocr = engine.recognise(grey(page(line, height=400)), 60.0).decode()
        assert [each in hocr for each in line.split()] == [True] * len(line.split())


@pytest.mark.parametrize(
    ("languages", "missing"),
    [("xyz", "language xyz,"), ("xyz+eng+abc", "languages xyz and abc,"), ("../eng", "../eng")],
)
def test_languages_that_are_not_installed_are_named(languages: str, missing: str) -> None:
    with pytest.raises(TesseractUnavailable, match=missing):
        Tesseract(languages)


def test_those_of_the_default_languages_are_used_that_are_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tesseract, "DEFAULT_LANGUAGES", ("xyz", "eng"))
    assert b"rent" in Tesseract("").recognise(grey(page(ENGLISH[0], height=400)), 60.0)
    monkeypatch.setattr(tesseract, "DEFAULT_LANGUAGES", ("xyz", "abc"))
    with pytest.raises(TesseractUnavailable, match="xyz and abc"):
        Tesseract("")


def test_what_is_written_about_missing_languages_is_discarded(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(TesseractUnavailable):
        Tesseract("xyz")
    os.write(2, b"kept")
    assert capfd.readouterr().err == "kept"


def test_a_machine_without_tesseract(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tesseract, "LIBRARY", "libtesseract.so.0")
    with pytest.raises(TesseractUnavailable, match=r"An administrator can install Tesseract, which .* in images\."):
        Tesseract("")


def test_a_page_takes_limited_time() -> None:
    engine = Tesseract("eng")
    with pytest.raises(PageTimeout):
        engine.recognise(grey(page(*ENGLISH)), 0.0)
    assert b"rent" in engine.recognise(grey(page(*ENGLISH)), 60.0)
