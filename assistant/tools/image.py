"""The image tool of the assistant: has a served image model draw by a child job, and stores the person's images.

The seed is the job's, and the images' ids are made from the job's. So another process that repeats the step after a
crash has the same images drawn, or finds those that were stored.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import structlog

from assistant.catalogue import ImageSpec
from assistant.tools.image_questions import image_prompt
from assistant.tools.prompt_translation import MAX_PROMPT_TOKENS, MAX_TOKENS, is_english, translate
from assistant.tools.sentences import Sentence
from assistant.tools.tool import InvalidArguments, JobCall, Refused, TooLarge, ToolContext, ToolOff, Unavailable
from assistant.tools.unit_prices import UnitPrices
from auth_billing.errors import StoreUnavailable
from router.errors import PublishError
from router.messages import Drawn, FailureCode, Finished, ImagePrompt, SamplingParams, Task, Usage, UsagePart
from router.model_registry import ModelInfo
from router.producer.child_jobs import ChildJobs, ChildRequest
from router.producer.errors import GenerationError, JobFailed
from runtime.retry import Backoff, exponential_backoff
from stored_objects.blobs.blobs import derived_blob_id
from stored_objects.errors import BlobNotFound, BlobsUnavailable, StorageQuotaExceeded, StoredObjectError
from stored_objects.objects.objects import StoredObjects
from stored_objects.objects.records import ObjectKind, ObjectOwner
from stored_objects.objects.reservation import BYTES_PER_PIXEL, reserved

MAX_PROMPT = 1000
"""Characters of a prompt."""
FIRST_HEARTBEATS = 5.0
"""Seconds from the first heartbeat on within which a model that is served reports itself."""
POLL_INTERVAL = 0.05
STORE_PATIENCE = 60.0
"""Seconds that an image waits for a store that is away."""
STORE_WAIT = exponential_backoff(first=0.1, longest=2.0)

OFF = Sentence(
    "Pictures are not switched on here: the assistant has no storage for them.",
    "Obrazy nie są tu włączone: asystent nie ma gdzie ich zapisać.",
)
_NO_MODEL = Sentence(
    "No model that draws pictures, and has a price, is served here at the moment.",
    "Nie działa tu teraz żaden model z ceną, który rysuje obrazy.",
)
_NOTHING = Sentence("What should be drawn? The question does not say.", "Co narysować? Pytanie tego nie mówi.")
_SIZE = Sentence(
    "Pictures of {size} are not drawn here, but of {sizes}.", "Nie rysuje się tu obrazów {size}, lecz {sizes}."
)
_REFUSED = Sentence("The image model does not draw this description.", "Model obrazów nie rysuje według takiego opisu.")
_TOO_LONG = Sentence("The description is too long for the image model.", "Opis jest za długi dla modelu obrazów.")
_FAILED = Sentence(
    "The picture could not be drawn. Please try again later.", "Nie udało się narysować obrazu. Spróbuj później."
)
_FULL = Sentence(
    "There is no space left for your pictures: delete some conversations with pictures first.",
    "Nie ma już miejsca na twoje obrazy: usuń najpierw rozmowy z obrazami.",
)
_NOT_STORED = Sentence(
    "The picture could not be stored. Please try again later.", "Nie udało się zapisać obrazu. Spróbuj później."
)

ResultT = TypeVar("ResultT")

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class ImageServices:
    """What drawing needs of the store: where images are kept, and which sizes have a price."""

    objects: StoredObjects
    prices: UnitPrices


class Image:
    """The image tool.

    Args:
        children: opens the jobs at image models.
        services: `None`: the tool is off.
        spec: the image model, and the sizes and number of images that may be asked for.
    """

    name = "image"
    description = (
        "Draws a picture from a description. Call it when the person wants a picture, drawing, photo or illustration. "
        "Describe in English what is to be seen."
    )
    time_limit = 600.0
    cache_seconds = 0.0

    def __init__(self, children: ChildJobs, services: ImageServices | None, spec: ImageSpec) -> None:
        self._children = children
        self._services = services
        self._spec = spec

    @property
    def parameters(self) -> dict[str, Any]:
        """JSON schema of the image tool's arguments: the prompt, and the permitted sizes and numbers of images."""
        prompt = {"type": "string", "minLength": 1, "maxLength": MAX_PROMPT, "description": "What is to be seen"}
        properties: dict[str, Any] = {"prompt": prompt}
        if len(self._spec.sizes) > 1:
            properties["size"] = {"type": "string", "enum": [*self._spec.sizes]}
        if self._spec.most > 1:
            properties["n"] = {"type": "integer", "minimum": 1, "maximum": self._spec.most}
        return {"type": "object", "properties": properties, "required": ["prompt"], "additionalProperties": False}

    def from_question(self, question: str, language: str) -> dict[str, Any] | None:
        """Return the image tool's arguments for an English or Polish question; `None` if it names nothing to draw."""
        prompt = image_prompt(question)
        return None if prompt is None else {"prompt": prompt[:MAX_PROMPT]}

    def phrased(self, result: dict[str, Any]) -> str | None:
        """Return "", because an answer with images needs no text."""
        return ""

    def for_model(self, result: dict[str, Any]) -> str:
        """Return a sentence about the drawn images; no model reads it, because the images are the answer."""
        return f"[{len(result['images'])} drawn: {result['prompt_sent']}]"

    def unnamed_models(self) -> list[str]:
        """Return the name of the image model that draws only because it is served; empty if the catalogue names one."""
        model = self._model() if self._spec.model is None else None
        return [] if model is None else [model.name]

    def most_parts(self, answers_with: ModelInfo | None) -> list[UsagePart]:
        """Return the most that one call of the tool can use, as parts of a bill: images, and a prompt's translation.

        There is a part for every size that may be drawn. `answers_with` is the model that translates.
        """
        model = self._model()
        if model is None:
            return []
        units = dict.fromkeys(self._sizes(model), self._spec.most)
        parts = [UsagePart(model=model.name, usage=Usage(prompt_tokens=0, units=units))]
        if answers_with is not None:
            context = answers_with.longest_model_len
            tokens = Usage(prompt_tokens=min(MAX_PROMPT_TOKENS, context), completion_tokens=min(MAX_TOKENS, context))
            parts.append(UsagePart(model=answers_with.name, usage=tokens))
        return parts

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> dict[str, Any]:
        """Have the images of `arguments` drawn by a child job, store them for the person, and return their addresses.

        The result is a JSON object of the type `image`.

        Raises:
            ToolOff: no image model is served, or there is no storage.
            ToolError: the arguments are wrong, the model refuses or fails, or the images can't be stored.
        """
        if self._services is None or context.call is None:
            raise ToolOff(OFF)
        objects = self._services.objects
        model = await self._served()
        prompt, size = _prompt(arguments), self._size(arguments, model)
        owner = ObjectOwner(context.tenant, context.requester)
        n = arguments.get("n", 1)
        blobs = [derived_blob_id(f"{context.call.job.id}-s{context.call.step}-{index}") for index in range(n)]
        try:
            stored = await _patiently(partial(_are_stored, objects, owner, blobs))
            async with nullcontext() if stored else reserved(objects, owner, _space(size, n)):
                sent = await self._in_english(prompt, context.call, context.question)
                wanted = ImagePrompt(prompt=sent, size=size)
                images = [] if stored else await self._drawn(model.name, wanted, n, context.call)
            if not stored:
                drawn = zip(blobs, images, strict=True)
                blobs = [await _patiently(partial(_stored, objects, owner, blob, png)) for blob, png in drawn]
        except StorageQuotaExceeded as error:
            raise Refused(_FULL) from error
        except (StoredObjectError, StoreUnavailable) as error:
            raise Unavailable(_NOT_STORED) from error
        context.call.bill(UsagePart(model=model.name, usage=Usage(prompt_tokens=0, units={size: n})))
        return {
            "type": "image",
            "prompt": prompt,
            "prompt_sent": sent,
            "translated": sent != prompt,
            "size": size,
            "images": [{"blob": blob} for blob in blobs],
        }

    async def _served(self) -> ModelInfo:
        while (model := self._model()) is None:
            since = self._children.listens_since
            if since is None or time.monotonic() - since >= FIRST_HEARTBEATS:
                raise ToolOff(_NO_MODEL)
            await asyncio.sleep(POLL_INTERVAL)
        return model

    def _model(self) -> ModelInfo | None:
        """Return the image model with a price: the catalogue's, or the first by name that was alive in the last 60 s.

        A model whose only worker was killed is waited for, as by gateways.
        """
        name = self._spec.model
        models = [each for each in self._children.models.models() if each.task is Task.IMAGE and each.recently_alive]
        served = [each for each in models if name in (None, each.name) and self._sizes(each)]
        return next((each for each in served if each.alive), served[0] if served else None)

    def _sizes(self, model: ModelInfo) -> list[str]:
        """Return the sizes that may be asked of a model, the default first; those without a price can't be billed."""
        sizes = self._spec.sizes or model.image_sizes[:1]
        if self._services is None:
            return []
        prices = self._services.prices
        return [size for size in sizes if size in model.image_sizes and prices.has(model.name, size)]

    def _size(self, arguments: dict[str, Any], model: ModelInfo) -> str:
        sizes = self._sizes(model)
        size = arguments.get("size", sizes[0])
        if size not in sizes:
            raise InvalidArguments(_SIZE, size=size, sizes=", ".join(sizes))
        return str(size)

    async def _in_english(self, prompt: str, call: JobCall, question: str) -> str:
        """Return the prompt in English; unchanged if it is, or if the answering model does not translate it."""
        if is_english(prompt, question):
            return prompt
        translation = await translate(prompt, call.models, call.answers_with, limit=MAX_PROMPT)
        if translation.usage is not None:
            call.bill(UsagePart(model=call.answers_with, usage=translation.usage))
        return translation.text or prompt

    async def _drawn(self, model: str, prompt: ImagePrompt, n: int, call: JobCall) -> list[bytes]:
        """Return the PNG files of a child job."""
        sampling = SamplingParams(seed=call.job.sampling.seed)
        child = ChildRequest(step=f"s{call.step}", model=model, prompt=prompt, sampling=sampling, n=n)
        images: dict[int, bytes] = {}
        try:
            async with aclosing(self._children.replies(call.job, child, call.headers)) as replies:
                async for reply in replies:
                    match reply:
                        case Drawn():
                            images |= zip(reply.indexes, reply.images, strict=True)
                        case Finished():
                            return [images[index] for index in range(n)]
        except JobFailed as error:
            if error.failure is FailureCode.CONTEXT_LENGTH_EXCEEDED:
                raise TooLarge(_TOO_LONG) from error
            if error.failure is FailureCode.INVALID_PROMPT:
                raise Refused(_REFUSED) from error
            raise Unavailable(_FAILED) from error
        except (GenerationError, PublishError) as error:
            raise Unavailable(_FAILED) from error
        raise Unavailable(_FAILED)


async def _patiently(call: Callable[[], Awaitable[ResultT]]) -> ResultT:
    """Return what `call` returns; repeat it while the store or the blobs are away, at most `STORE_PATIENCE`."""
    backoff, until = Backoff(STORE_WAIT), time.monotonic() + STORE_PATIENCE
    while True:
        try:
            return await call()
        except (StoreUnavailable, BlobsUnavailable) as error:
            if time.monotonic() >= until:
                raise
            _log.warning("an image is stored later", reason=str(error))
            await backoff.sleep()


async def _stored(objects: StoredObjects, owner: ObjectOwner, blob: str, png: bytes) -> str:
    """Store an image for an hour, unless a conversation keeps it; return its id, `blob` if that is free."""
    return (await objects.put(owner, png, kind=ObjectKind.IMAGE, media_type="image/png", id=blob)).id


async def _are_stored(objects: StoredObjects, owner: ObjectOwner, blobs: Sequence[str]) -> bool:
    """Return whether an earlier attempt at the step, whose process died, has stored all images."""
    try:
        for blob in blobs:
            await objects.find(owner, blob)
    except BlobNotFound:
        return False
    return True


def _prompt(arguments: dict[str, Any]) -> str:
    prompt = " ".join(str(arguments.get("prompt", "")).split())
    if not any(map(str.isalnum, prompt)):
        raise InvalidArguments(_NOTHING)
    return prompt


def _space(size: str, n: int) -> int:
    """Return the bytes that `n` images may have together."""
    width, _, height = size.partition("x")
    return n * int(width) * int(height) * BYTES_PER_PIXEL
