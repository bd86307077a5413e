"""Runs a vision-language model of the `transformers` library token by token, with the library's own KV cache.

Never runs code of a model's folder, never unpickles, and never reaches the network. Before a model is served, it is
compared with itself: two conversations computed in turn with a cache must give the logits of each computed at once.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import AutoModelForImageTextToText, DynamicCache, PreTrainedConfig, PreTrainedModel

from inference_worker.engine.layers.rotary import max_context_length
from inference_worker.engine.loading.model_loader import read_config
from inference_worker.engine.models.families import eos_token_ids
from inference_worker.engine.models.verification import TOLERANCE
from inference_worker.engine.vision.image_processing import ImageProcessing
from inference_worker.engine.weights.pretrained import from_pretrained
from inference_worker.engine_protocol import ModelInput
from inference_worker.errors import UnsupportedModel

_POSITION_STATE = "rope_deltas"
"""Attribute in which models with positions in three dimensions keep how far a conversation's positions are shifted."""
_TEST_SIZES = ((160, 96), (64, 224))
"""Sizes in pixels of the images that the two conversations of the verification have."""
_TEST_STEPS = 3


@dataclass(eq=False)
class ModelState:
    """What a model keeps of one sequence between two steps."""

    cache: DynamicCache
    positions: dict[int, Any] = field(default_factory=dict)
    """Position state of each module that has one, by the module's index."""


class VisionModel:
    """A loaded vision-language model, which computes one sequence at a time."""

    def __init__(self, model: PreTrainedModel) -> None:
        config = model.config
        text = config.get_text_config()
        self._model = model
        self._accepted = inspect.signature(model.forward).parameters
        self._with_position_state = [module for module in model.modules() if hasattr(module, _POSITION_STATE)]
        self._image_token = _image_token_id(config)
        self.device = next(model.parameters()).device
        self.dtype = model.dtype
        self.vocab_size = int(text.vocab_size)
        self.max_position = max_context_length(text)
        self.eos_token_ids = eos_token_ids(config)
        self.bytes_per_token = _bytes_per_token(text, self.dtype)

    @classmethod
    def load(cls, folder: Path, dtype: torch.dtype, device: torch.device) -> VisionModel:
        """Load the vision-language model in `folder` from its safetensors onto `device`, and verify what it computes.

        Raises:
            UnsupportedModel: `transformers` has no such model, or it computes something else token by token.
            BadWeights: the checkpoint is damaged or incomplete.
        """
        config = read_config(folder)
        model = from_pretrained(AutoModelForImageTextToText, folder, config, dtype)
        loaded = cls(model.to(device).eval().requires_grad_(False))
        loaded.verify(ImageProcessing.load(folder))
        return loaded

    def state(self) -> ModelState:
        """Return a new, empty state (KV cache and positions) for a sequence of which nothing is computed yet."""
        return ModelState(DynamicCache(config=self._model.config.get_text_config()))

    def compute(self, state: ModelState, token_ids: Iterable[int], inputs: Iterable[ModelInput] = ()) -> Tensor:
        """Compute a sequence's next tokens, update its `state`; return the logits after the last token, [1, vocab].

        `inputs` are the arrays of all images of the prompt, for the sequence's first call. The logits are float32.
        """
        ids = torch.tensor([list(token_ids)], dtype=torch.int64, device=self.device)
        arrays = {each.name: self._tensor(each) for each in inputs if each.name in self._accepted}
        if arrays and "mm_token_type_ids" in self._accepted:
            arrays["mm_token_type_ids"] = (ids == self._image_token).int()
        logits = self._forward(state, input_ids=ids, past_key_values=state.cache, use_cache=True, **arrays)
        return logits[:, -1].float()

    def verify(self, images: ImageProcessing) -> None:
        """Check that two conversations with images, computed token by token in turn, get the right logits.

        The right ones are those of each conversation computed at once.

        Raises:
            UnsupportedModel: the logits differ, or the model does not run.
        """
        try:
            with torch.inference_mode():
                same = self._computes_the_same(images)
        except (TypeError, ValueError, KeyError, IndexError, AttributeError, RuntimeError) as error:
            reason = " ".join(str(error).split())[:200]
            raise UnsupportedModel(f"{self._model.config.model_type} does not run token by token: {reason}") from error
        if not same:
            raise UnsupportedModel(f"{self._model.config.model_type} computes something else token by token")

    def _computes_the_same(self, images: ImageProcessing) -> bool:
        prompts = [images.test_prompt(size) for size in _TEST_SIZES]
        following = [(3 + 7919 * step) % self.vocab_size for step in range(_TEST_STEPS)]
        states = [self.state() for _ in prompts]
        stepped: list[list[Tensor]] = [[] for _ in prompts]
        for step in range(1 + _TEST_STEPS):
            for place, (ids, inputs) in enumerate(prompts):
                tokens, arrays = (ids, inputs) if not step else ([following[step - 1]], [])
                stepped[place].append(self.compute(states[place], tokens, arrays))
        whole = [self.compute(self.state(), [*ids, *following], inputs) for ids, inputs in prompts]
        allowed = TOLERANCE.get(self.dtype, 1e-3) * max(float(each.abs().max()) for each in whole)
        return all((one[-1] - all_).abs().max() <= allowed for one, all_ in zip(stepped, whole, strict=True))

    def _forward(self, state: ModelState, **arguments: Any) -> Tensor:
        """Run the model with the position state of this sequence, which it keeps in its modules, and take it back."""
        for index, module in enumerate(self._with_position_state):
            setattr(module, _POSITION_STATE, state.positions.get(index))
        logits: Tensor = self._model(**arguments, **self._last_logits_only()).logits
        state.positions = {index: _position_state(module) for index, module in enumerate(self._with_position_state)}
        return logits

    def _last_logits_only(self) -> Mapping[str, int]:
        return {"logits_to_keep": 1} if "logits_to_keep" in self._accepted else {}

    def _tensor(self, array: ModelInput) -> Tensor:
        values = torch.from_numpy(np.frombuffer(array.data, array.dtype).reshape(array.shape).copy())
        return values.to(self.device, self.dtype if values.is_floating_point() else values.dtype)


def _position_state(module: nn.Module) -> Any:
    return getattr(module, _POSITION_STATE)


def _image_token_id(config: PreTrainedConfig) -> int:
    for name in ("image_token_id", "image_token_index"):
        if isinstance(found := getattr(config, name, None), int):
            return found
    return -1


def _bytes_per_token(text: PreTrainedConfig, dtype: torch.dtype) -> int:
    """Return the bytes that one token takes in the KV cache."""
    heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    size = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    return int(2 * text.num_hidden_layers * heads * size * dtype.itemsize)
