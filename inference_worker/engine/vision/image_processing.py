"""Turns images into what a vision-language model reads: token texts and arrays, by the model's own processor.

`transformers` has the processor of each family. It is loaded from the model's folder without the folder's code.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import (
    GifImagePlugin,
    Image,
    ImageOps,
    JpegImagePlugin,
    PngImagePlugin,
    TiffImagePlugin,
    WebPImagePlugin,
)
from transformers import AutoProcessor
from transformers.utils import logging as transformers_logging

from inference_worker.engine_protocol import ModelInput
from inference_worker.errors import ImageRejected, UnsupportedModel

# Pillow imports this module when it first reads EXIF data, which a confined process can't.
_READS_EXIF = TiffImagePlugin

MAX_PIXELS = 16 * 2**20
"""Largest image: its width times its height."""
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
        """Load the processor of the model in `folder`.

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
        """Decode image files; return the text that replaces each one's image token, and the arrays of all of them.

        Raises:
            ImageRejected: a file is no image that can be read, or is too large.
        """
        images = [_decode(index, file) for index, file in enumerate(files)]
        try:
            return self._process(images)
        except (ValueError, TypeError, LookupError, ArithmeticError) as error:
            raise ImageRejected(0, "this model can't read images of this size") from error

    def max_text(self) -> tuple[str, float]:
        """Return the longest text of an image of extreme size, and the factor by which others may be longer."""
        texts = [self._process([Image.new("RGB", size)])[0][0] for size in _EXTREME_SIZES]
        return max(texts, key=len), _MARGIN

    def test_prompt(self, size: tuple[int, int]) -> tuple[list[int], list[ModelInput]]:
        """Return the token ids and arrays of a short prompt with one image of `size`, a colour gradient."""
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


def _decode(index: int, file: bytes) -> Image.Image:
    """Return an image's first frame, upright, on white where it is transparent."""
    try:
        with Image.open(io.BytesIO(file), formats=FORMATS) as image:
            if image.width * image.height > MAX_PIXELS:
                raise ImageRejected(index, f"it has more than {MAX_PIXELS} pixels")
            image.load()
            upright = ImageOps.exif_transpose(image)
            if "A" not in upright.getbands() and "transparency" not in upright.info:
                return upright.convert("RGB")
            layer = upright.convert("RGBA")
            return Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB")
    except Image.DecompressionBombError as error:
        raise ImageRejected(index, f"it has more than {MAX_PIXELS} pixels") from error
    except (OSError, ValueError, SyntaxError, LookupError, EOFError) as error:
        raise ImageRejected(index, "it is damaged, or no PNG, JPEG, WebP or GIF file") from error
