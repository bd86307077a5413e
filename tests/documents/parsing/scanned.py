"""Scanned pages, made for tests of text recognition: text that Pillow draws, as images and as PDF files of images."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
from collections.abc import Sequence
from typing import Any

import pytest
from PIL import Image, ImageDraw, ImageFont

from tests.documents.parsing.files import FONT

ENGLISH = ("The rent is due on the fifth day", "of each month, by bank transfer.")
POLISH = ("Zażółć gęślą jaźń: czynsz jest", "płatny do piątego dnia miesiąca.")
RESOLUTION = 300
WIDTH, HEIGHT = 1240, 1754
"""Pixels of a page: A5 at 210 dots per inch."""
SIZE, LINE = 46, 70
"""Height of letters and distance of lines in pixels."""


def require_tesseract() -> None:
    """Skip the test if Tesseract with its data of English and Polish is not installed; fail it where `CI` is set."""
    program = shutil.which("tesseract")
    listed = subprocess.run([program, "--list-langs"], capture_output=True, check=True, text=True) if program else None
    if listed is None or not {"eng", "pol"} <= set(listed.stdout.split()):
        reason = "Tesseract is not installed: `sudo apt-get install tesseract-ocr tesseract-ocr-pol`"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)


def page(*lines: str, heading: str = "", width: int = WIDTH, height: int = HEIGHT, size: int = SIZE) -> Image.Image:
    """Return the image of a page with a heading and lines of text."""
    image = Image.new("L", (width, height), 255)
    draw = ImageDraw.Draw(image)
    draw.text((90, 60), heading, font=ImageFont.truetype(FONT, 2 * size), fill=0)
    for number, line in enumerate(lines):
        draw.text((90, 60 + 4 * size + number * LINE * size / SIZE), line, font=ImageFont.truetype(FONT, size), fill=0)
    return image


def strokes() -> Image.Image:
    """Return a page full of strokes, which takes long to recognise and has no text."""
    image = Image.new("L", (2480, 3508), 255)
    draw = ImageDraw.Draw(image)
    state = 1
    for _ in range(60_000):
        numbers = []
        for most in (2480, 3508, 28, 28):
            state = state * 6364136223846793005 + 1442695040888963407 & 2**64 - 1
            numbers.append((state >> 33) % most)
        x, y, right, down = numbers
        draw.line((x, y, x + right - 14, y + down - 14), fill=0, width=3)
    return image


def saved(image: Image.Image, image_format: str, more: Sequence[Image.Image] = (), **options: Any) -> bytes:
    """Return the bytes of an image file, or of a PDF or TIFF file with a page for each image."""
    written = io.BytesIO()
    if more:
        options |= {"save_all": True, "append_images": list(more)}
    image.save(written, image_format, **options)
    return written.getvalue()


def scanned(*pages: Image.Image) -> bytes:
    """Return a PDF file whose pages are images."""
    return saved(pages[0], "PDF", pages[1:], resolution=RESOLUTION)
