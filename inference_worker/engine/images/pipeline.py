"""Loads a text-to-image pipeline of the diffusers library into the engine and draws with it, one image at a time.

One at a time, so that an image depends on its prompt, size and seed only, not on the images drawn beside it. Never
reaches the network, never unpickles, and never runs a folder's own code.
"""

from __future__ import annotations

import inspect
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from diffusers import DiffusionPipeline
from diffusers.pipelines.auto_pipeline import AUTO_TEXT2IMAGE_PIPELINES_MAPPING
from diffusers.utils import logging as diffusers_logging
from transformers.utils import logging as transformers_logging

from inference_worker.errors import BadWeights, ModelError, PromptRejected, UnsupportedModel
from inference_worker.model_files.pipeline_folder import check_pipeline
from inference_worker.settings import EngineSettings
from router.messages import FailureCode

STANDARD_SIZES = ("256x256", "512x512", "1024x1024", "1536x1024", "1024x1536", "1792x1024", "1024x1792")
"""Sizes of OpenAI's API."""
MAX_ENLARGEMENT = 2.0
"""Largest standard size that is drawn by default, as a multiple of the pixels of the pipeline's own size."""
MAX_PROMPT_TOKENS = 32_000
"""Longest prompt of a pipeline that does not limit it, as in OpenAI's API."""
REFUSED = "The safety checker of this model refused the image."


class Size(NamedTuple):
    """Width and height of an image in pixels."""

    width: int
    height: int

    @classmethod
    def of(cls, text: str) -> Size:
        """Parse an image size such as `1024x768`: width and height in pixels."""
        width, _, height = text.partition("x")
        return cls(int(width), int(height))

    def __str__(self) -> str:
        return f"{self.width}x{self.height}"


class Pipeline:
    """A loaded text-to-image pipeline, and the operator's limits for it."""

    def __init__(self, pipeline: Any, settings: EngineSettings) -> None:
        """Check that the pipeline draws from text, can be paused between its steps, and draws the configured sizes.

        Raises:
            UnsupportedModel: it does not draw from text alone, or can't be paused.
            ModelError: a configured size is impossible.
        """
        self._pipeline = pipeline
        self._parameters: Mapping[str, inspect.Parameter] = inspect.signature(pipeline.__call__).parameters
        _check_kind(pipeline, self._parameters)
        self._options = self._fixed_options(settings)
        self.image_sizes = self._sizes(settings.image_sizes)
        self.max_prompt_tokens = self._max_prompt_tokens()
        pipeline.set_progress_bar_config(disable=True)

    @classmethod
    def load(cls, folder: Path, settings: EngineSettings, dtype: torch.dtype) -> Pipeline:
        """Load the diffusers pipeline in `folder` onto the configured device, with weights as `dtype`, and return it.

        Raises:
            ModelError: the pipeline can't be served; the message says why.
        """
        check_pipeline(folder)
        _silence_libraries()
        try:
            pipeline = DiffusionPipeline.from_pretrained(  # type: ignore[no-untyped-call]
                folder, dtype=dtype, use_safetensors=True, local_files_only=True, trust_remote_code=False
            )
        except (ValueError, AttributeError, ImportError) as error:
            raise UnsupportedModel(f"can't load the pipeline in {folder}: {_one_line(error)}") from error
        except (OSError, KeyError, TypeError) as error:
            raise BadWeights(f"can't load the pipeline in {folder}: {_one_line(error)}") from error
        return cls(pipeline.to(settings.device), settings)

    def check_prompt(self, prompt: str) -> None:
        """Check that the pipeline reads the whole of `prompt`, before an image of it is queued.

        Raises:
            PromptRejected: the prompt has more tokens than the pipeline reads, so that its end would be cut off.
        """
        tokenizer = self._tokenizer
        if tokenizer is None:
            return
        tokens = len(tokenizer(prompt, truncation=False, verbose=False).input_ids)
        if tokens > self.max_prompt_tokens:
            message = (
                f"This model reads prompts of up to {self.max_prompt_tokens} tokens. "
                f"However, your prompt has {tokens} tokens. Please reduce its length."
            )
            raise PromptRejected(message, "prompt", FailureCode.CONTEXT_LENGTH_EXCEEDED)

    def draw(self, prompt: str, size: str, seed: int, pause: Callable[[], None]) -> bytes:
        """Draw one image of `prompt` and return it as the bytes of a PNG file; blocks until it is drawn.

        Args:
            size: such as `1024x768`.
            seed: determines the noise that the image starts from.
            pause: called after each denoising step.

        Raises:
            PromptRejected: the pipeline's safety checker refuses the image.
        """

        def after_step(_pipeline: Any, _step: int, _time: Any, values: dict[str, Any]) -> dict[str, Any]:
            pause()
            return values

        width, height = Size.of(size)
        output = self._pipeline(
            prompt=prompt,
            width=width,
            height=height,
            generator=torch.Generator("cpu").manual_seed(seed),  # the same noise on every device
            callback_on_step_end=after_step,
            output_type="pil",
            **self._options,
        )
        if any(getattr(output, "nsfw_content_detected", None) or ()):
            raise PromptRejected(REFUSED, "prompt", FailureCode.INVALID_PROMPT)
        file = io.BytesIO()
        output.images[0].save(file, format="PNG")
        return file.getvalue()

    def _fixed_options(self, settings: EngineSettings) -> dict[str, Any]:
        """Return the arguments that are the same for all images: those that the operator has set."""
        options: dict[str, Any] = {}
        if settings.image_steps is not None:
            options["num_inference_steps"] = settings.image_steps
        if settings.image_guidance is not None:
            if "guidance_scale" not in self._parameters:
                raise ModelError("image_guidance: this pipeline has no guidance scale")
            options["guidance_scale"] = settings.image_guidance
        return options

    def _sizes(self, configured: tuple[str, ...]) -> list[str]:
        own, unit = self._own_size(), self._unit
        sizes = [Size.of(text) for text in configured]
        if not sizes:
            enough = MAX_ENLARGEMENT * own.width * own.height
            standard = [Size.of(text) for text in STANDARD_SIZES]
            fitting = [each for each in standard if each.width * each.height <= enough and each != own]
            sizes = [own, *(each for each in fitting if not (each.width % unit or each.height % unit))]
        if impossible := [str(size) for size in sizes if size.width % unit or size.height % unit]:
            raise ModelError(f"image_sizes {', '.join(impossible)}: sides of this pipeline are multiples of {unit}")
        return [str(size) for size in sizes]

    def _own_size(self) -> Size:
        """Return the size that the pipeline was trained for."""
        default = getattr(self._pipeline, "default_sample_size", None)
        sample = default or getattr(getattr(self._denoiser, "config", None), "sample_size", None)
        width, height = reversed(sample) if isinstance(sample, list | tuple) else (sample, sample)
        if not isinstance(width, int) or not isinstance(height, int):
            raise ModelError("this pipeline does not say what size it draws: set image_sizes")
        scale = self._scale
        return Size(width * scale, height * scale)

    @property
    def _denoiser(self) -> Any:
        return getattr(self._pipeline, "unet", None) or getattr(self._pipeline, "transformer", None)

    @property
    def _scale(self) -> int:
        """Pixels for each latent position."""
        return int(getattr(self._pipeline, "vae_scale_factor", 8))

    @property
    def _unit(self) -> int:
        """Number of pixels of which widths and heights are multiples: transformers read patches of two by two."""
        return self._scale * (2 if getattr(self._pipeline, "transformer", None) is not None else 1)

    @property
    def _tokenizer(self) -> Any:
        """Tokenizer whose text encoder reads the whole prompt: the last one of those with an adjustable length."""
        names = ["tokenizer_3", "tokenizer_2", "tokenizer"] if self._sequence_length else ["tokenizer"]
        found = (getattr(self._pipeline, name, None) for name in names)
        return next((each for each in found if each is not None), None)

    @property
    def _sequence_length(self) -> int | None:
        parameter = self._parameters.get("max_sequence_length")
        default = None if parameter is None else parameter.default
        return default if isinstance(default, int) else None

    def _max_prompt_tokens(self) -> int:
        tokenizer = self._tokenizer
        if tokenizer is None:
            raise UnsupportedModel(f"{type(self._pipeline).__name__} has no tokenizer")
        if self._sequence_length is not None and tokenizer is not getattr(self._pipeline, "tokenizer", None):
            return self._sequence_length
        return min(self._sequence_length or MAX_PROMPT_TOKENS, int(tokenizer.model_max_length))


def _silence_libraries() -> None:
    """Turn off the libraries' progress bars, and their warnings, which repeat clients' prompts."""
    diffusers_logging.set_verbosity_error()
    transformers_logging.set_verbosity_error()
    diffusers_logging.disable_progress_bar()
    transformers_logging.disable_progress_bar()


def _check_kind(pipeline: Any, parameters: Mapping[str, inspect.Parameter]) -> None:
    name = type(pipeline).__name__
    if type(pipeline) not in AUTO_TEXT2IMAGE_PIPELINES_MAPPING.values() or hasattr(pipeline, "controlnet"):
        raise UnsupportedModel(f"{name} does not draw images from text alone")
    needed = {"prompt", "width", "height", "num_inference_steps", "generator", "callback_on_step_end"}
    if missing := sorted(needed - parameters.keys()):
        raise UnsupportedModel(f"{name} has no {', '.join(missing)}, which image workers need")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
