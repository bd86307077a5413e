"""Turns image files into the token texts and arrays that a vision-language model reads, by the model's processor.

`transformers` has the processor of each family. It is loaded from the model's folder without the folder's code.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from PIL import (
    GifImagePlugin,
    Image,
    ImageOps,
    JpegImagePlugin,
    MpoImagePlugin,
    PngImagePlugin,
    TiffImagePlugin,
    WebPImagePlugin,
)
from transformers import AutoProcessor
from transformers.utils import logging as transformers_logging

from inference_worker.engine.vision.reader_process import MAX_PIXELS, MAX_SCANS, DeclaredArray, ReaderReady, Refusal
from inference_worker.engine_protocol import ModelInput
from inference_worker.errors import ImageRejected, UnsupportedModel

# Pillow imports these when it first reads EXIF data or a camera's JPEG of several pictures; a confined process can't.
_IMPORTED_BEFORE = (TiffImagePlugin, MpoImagePlugin)

FORMATS = tuple(
    plugin.format
    for plugin in (
        PngImagePlugin.PngImageFile,
        JpegImagePlugin.JpegImageFile,
        WebPImagePlugin.WebPImageFile,
        GifImagePlugin.GifImageFile,
    )
)
_EXTREME_SIZES = ((4096, 4096), (4096, 2048), (2048, 4096), (4096, 64), (64, 4096), (1024, 1024), (32, 32))
"""Sizes whose numbers of tokens are compared for the bound: the largest image, the longest, and a small one."""
_MARGIN = 1.25
"""Factor on the largest number of tokens of these sizes."""
_MARKER = re.compile(rb"\xff+([^\x00\x01\xff\xd0-\xd7])")
"""Marker of a JPEG file, but for those that stand alone in the data of a scan."""
_NO_LENGTH = b"\xd8\xd9"
"""Second bytes of the markers without a segment: start and end of the image."""
_START_OF_SCAN = b"\xda"


class ImageProcessing:
    """The image processor of one vision-language model."""

    def __init__(self, processor: Any) -> None:
        """Raise `UnsupportedModel` if the processor does not say which token stands for an image."""
        token = getattr(processor, "image_token", None)
        if not isinstance(token, str) or getattr(processor, "image_processor", None) is None:
            raise UnsupportedModel(f"{type(processor).__name__} does not replace an image token by an image's tokens")
        self._processor = processor
        self.image_token = token
        """Text of the token that chat templates write for an image."""

    @classmethod
    def load(cls, folder: Path) -> ImageProcessing:
        """Load a vision-language model's image processor from `folder` by `transformers`, without the folder's code.

        Raises:
            UnsupportedModel: `transformers` has no processor for it, or needs packages that are not installed.
        """
        transformers_logging.set_verbosity_error()
        try:
            return cls(AutoProcessor.from_pretrained(folder, trust_remote_code=False, local_files_only=True))
        except (ImportError, ValueError, OSError, TypeError, KeyError, AttributeError) as error:
            reason = " ".join(str(error).split())[:300]
            raise UnsupportedModel(f"can't load the image processor in {folder}: {reason}") from error

    def process(self, files: Sequence[bytes]) -> tuple[list[str], list[ModelInput]]:
        """Decode the image files of one prompt and convert them to what the model reads.

        Returns:
            The text that replaces each image's token in the prompt, and the arrays of all images.

        Raises:
            ImageRejected: a file is no image that can be read, or is too large.
        """
        images = [_decode(index, file) for index, file in enumerate(files)]
        try:
            return self._process(images)
        except (ValueError, TypeError, LookupError, ArithmeticError) as error:
            raise ImageRejected(0, Refusal.SIZE) from error

    def measure(self) -> ReaderReady:
        """Return what all images have in common for this model, by processing images of extreme sizes, and two at once.

        It has the longest text of an image, and the names, types and shapes of the arrays.

        Raises:
            UnsupportedModel: images become different arrays from size to size.
        """
        longest = ""
        samples = []
        for size, count in (*((size, 1) for size in _EXTREME_SIZES), (_EXTREME_SIZES[-1], 2)):
            texts, inputs = self._process([Image.new("RGB", size)] * count)
            longest = max(longest, texts[0], key=len)
            samples.append([msgspec.structs.replace(each, data=b"") for each in inputs])
        return ReaderReady(self.image_token, longest, _MARGIN, _declared(samples))

    def test_prompt(self, size: tuple[int, int]) -> tuple[list[int], list[ModelInput]]:
        """Return the token ids and arrays of a short prompt with one image of `size` (width and height in pixels).

        The image is a colour gradient; `VisionModel.verify` computes it.
        """
        width, height = size
        row = np.linspace(0, 255, width, dtype=np.uint8)
        image = Image.fromarray(np.broadcast_to(row[None, :, None], (height, width, 3)).copy())
        texts, inputs = self._process([image])
        return list(self._processor.tokenizer(f"a{texts[0]}b", add_special_tokens=False).input_ids), inputs

    def _process(self, images: list[Image.Image]) -> tuple[list[str], list[ModelInput]]:
        processor = self._processor
        options = processor._merge_kwargs(tokenizer_init_kwargs=processor.tokenizer.init_kwargs)["images_kwargs"]
        arranged = processor.prepare_inputs_layout(images=images, text=[self.image_token * len(images)])[0]
        arrays, texts = processor._process_images(arranged, **{**options, "return_tensors": "np"})
        return texts, [_input(name, value) for name, value in arrays.items() if isinstance(value, np.ndarray)]


def _input(name: str, value: np.ndarray[Any, Any]) -> ModelInput:
    return ModelInput(name, value.dtype.name, list(value.shape), np.ascontiguousarray(value).tobytes())


def _declared(samples: list[list[ModelInput]]) -> list[DeclaredArray]:
    """Return what the arrays of several prompts have in common."""
    kinds = {tuple((each.name, each.dtype, len(each.shape)) for each in sample) for sample in samples}
    if len(kinds) > 1:
        raise UnsupportedModel("the image processor's arrays differ from image to image")
    declared = []
    for arrays in zip(*samples, strict=True):
        lengths = zip(*(each.shape for each in arrays), strict=True)
        shape = [axis[0] if len(set(axis)) == 1 else None for axis in lengths]
        declared.append(DeclaredArray(arrays[0].name, arrays[0].dtype, np.dtype(arrays[0].dtype).itemsize, shape))
    return declared


def _scans(file: bytes) -> int:
    """Return the number of scans of a JPEG file, by its markers."""
    scans, at = 0, 0
    while (marker := _MARKER.search(file, at)) is not None:
        at = marker.end()
        if marker[1] not in _NO_LENGTH:
            scans += marker[1] == _START_OF_SCAN
            at += max(2, int.from_bytes(file[at : at + 2], "big"))
    return scans


def _decode(index: int, file: bytes) -> Image.Image:
    """Return an image's first frame, upright, on white where it is transparent."""
    try:
        with Image.open(io.BytesIO(file), formats=FORMATS) as image:
            if image.width * image.height > MAX_PIXELS:
                raise ImageRejected(index, Refusal.PIXELS)
            if image.format in ("JPEG", "MPO") and _scans(file) > MAX_SCANS:
                raise ImageRejected(index, Refusal.SCANS)
            image.load()
            upright = ImageOps.exif_transpose(image)
            if "A" not in upright.getbands() and "transparency" not in upright.info:
                return upright.convert("RGB")
            layer = upright.convert("RGBA")
            return Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB")
    except Image.DecompressionBombError as error:
        raise ImageRejected(index, Refusal.PIXELS) from error
    except (OSError, ValueError, SyntaxError, LookupError, EOFError) as error:
        raise ImageRejected(index, Refusal.DAMAGED) from error
