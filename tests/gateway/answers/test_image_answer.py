"""Image answers are valid OpenAI bodies with the bytes of the files."""

from __future__ import annotations

import base64

from gateway.answers.image_answer import DrawnImage, write
from gateway.openai.images import ImageList


def test_files_are_restored_exactly() -> None:
    images = [DrawnImage(bytes(range(256))), DrawnImage(b"png", 'a "tall" one')]
    answer = ImageList.model_validate_json(write(images, created=7, size="512x256"))
    assert [base64.b64decode(each.b64_json or "") for each in answer.data] == [image.png for image in images]
    assert [each.revised_prompt for each in answer.data] == [None, 'a "tall" one']
    assert (answer.created, answer.size) == (7, "512x256")


def test_stored_images_are_referred_to() -> None:
    images = [DrawnImage(b"png", "other", url='https://example.com/"a"'), DrawnImage(b"png")]
    first, second = ImageList.model_validate_json(write(images, created=7, size="1x1")).data
    assert (first.url, first.b64_json, first.revised_prompt) == ('https://example.com/"a"', None, "other")
    assert (second.url, second.b64_json) == (None, "cG5n")


def test_an_answer_may_have_no_images() -> None:
    assert ImageList.model_validate_json(write([], created=7, size="512x256")).data == []
