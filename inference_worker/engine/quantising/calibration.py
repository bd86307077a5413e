"""Passes a text through a model layer after layer, to measure the inputs of its linear layers while they are rounded.

The inputs of a layer come from the rounded layers before it, so that its rounding makes up for some of their errors.
Only one decoder layer is in float32 at a time, and the moments of one set of inputs are in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from inference_worker.engine.layers.rotary import max_context_length
from inference_worker.engine.quantising.gptq_rounding import InputMoments
from inference_worker.errors import UnsupportedModel

CALIBRATION_TEXT = Path(__file__).with_name("calibration.txt")
"""Prose, questions and answers, code and tables, most of it in English; nothing of the text that measures quality."""

_WINDOW, _BATCH = 512, 4

RoundMatrix = Callable[[str, InputMoments], Tensor]
"""Rounds the matrix of that name for inputs with these moments; returns the weights that it stands for, [out, in]."""


@dataclass
class _Arguments:
    """The arguments of a decoder layer other than its hidden states; they are the same for all windows."""

    positional: tuple[Any, ...] = ()
    named: dict[str, Any] = field(default_factory=dict)


class _StopForward(Exception):
    """Ends a forward pass once the wanted inputs are recorded."""


@torch.no_grad()
def calibrate(model: PreTrainedModel, names: Collection[str], ids: list[int], round_matrix: RoundMatrix) -> None:
    """RoundMatrix the matrices `names` of a model's decoder layers one after another, with the moments of their inputs.

    Args:
        model: on the CPU; its decoder layers have no weights afterwards.
        names: names of matrices in the checkpoint; those outside of decoder layers are skipped.
        ids: token ids of the text.
        round_matrix: is called for each matrix; later inputs are computed with the weights that it returns.

    Raises:
        UnsupportedModel: the model is no chain of decoder layers.
    """
    path, layers = _decoder_layers(model)
    batches = torch.split(_windows(ids, max_context_length(model.config.get_text_config())), _BATCH)
    arguments = _layer_arguments(model, layers, batches[0][:1])
    states = [_first_states(model, layers[0], batch) for batch in batches]
    for number, layer in enumerate(layers):
        layer.float()
        found = {module: f"{path}.{number}.{name}.weight" for name, module in layer.named_modules()}
        matrices = [module for module in found if isinstance(module, nn.Linear) and found[module] in names]
        for sharing in _by_input(layer, matrices, states[0][:1], arguments[number]):
            moments = InputMoments(_moments(layer, sharing[0], states, arguments[number]))
            for module in sharing:
                module.weight.copy_(round_matrix(found[module], moments))
        states = [_output(layer, batch, arguments[number]) for batch in states]
        layer.to("meta")


def _decoder_layers(model: PreTrainedModel) -> tuple[str, nn.ModuleList]:
    """Return the model's list of decoder layers, after its name."""
    count = model.config.get_text_config().num_hidden_layers
    for name, module in model.named_modules():
        if isinstance(module, nn.ModuleList) and len(module) == count:
            return name, module
    raise UnsupportedModel(f"a {model.config.model_type} has no list of decoder layers: it can't be calibrated")


def _windows(ids: list[int], longest: int) -> Tensor:
    """Return the text as windows of equal length, [windows, length]; what does not fill one is left out."""
    length = min(_WINDOW, longest, len(ids))
    return torch.tensor(ids[: len(ids) // length * length]).view(-1, length)


def _layer_arguments(model: PreTrainedModel, layers: nn.ModuleList, ids: Tensor) -> list[_Arguments]:
    """Return the arguments of each layer for a window of [1, length] ids."""
    found: list[_Arguments] = []

    def record(hidden: Tensor, *positional: Any, **named: Any) -> Tensor:
        found.append(_Arguments(positional, named))
        if len(found) == len(layers):
            raise _StopForward
        return hidden

    with _replaced_forwards(list(layers), record):
        _run(model, ids)
    if len(found) < len(layers):
        raise UnsupportedModel(f"a {model.config.model_type} does not call its layers in turn: it can't be calibrated")
    return found


def _first_states(model: PreTrainedModel, first: nn.Module, ids: Tensor) -> Tensor:
    """Return the inputs of the first layer for [windows, length] ids: [windows, length, hidden] float32."""
    found: list[Tensor] = []

    def record(hidden: Tensor, *_: Any, **__: Any) -> NoReturn:
        found.append(hidden)
        raise _StopForward

    with _replaced_forwards([first], record):
        _run(model, ids)
    return found[0]


def _run(model: PreTrainedModel, ids: Tensor) -> None:
    """Run the model on [windows, length] ids until its layers have seen enough, with float32 hidden states."""
    try:
        model.base_model(inputs_embeds=model.get_input_embeddings()(ids).float(), use_cache=False)
    except _StopForward:
        return


@contextmanager
def _replaced_forwards(modules: list[nn.Module], forward: Callable[..., Any]) -> Iterator[None]:
    for module in modules:
        module.forward = forward
    try:
        yield
    finally:
        for module in modules:
            del module.forward


def _output(layer: nn.Module, states: Tensor, arguments: _Arguments) -> Tensor:
    """Return a layer's hidden states."""
    found = layer(states, *arguments.positional, **arguments.named)
    out: Tensor = found[0] if isinstance(found, tuple) else found
    return out


def _by_input(
    layer: nn.Module, matrices: list[nn.Linear], states: Tensor, arguments: _Arguments
) -> list[list[nn.Linear]]:
    """Return the layer's `matrices` in the order of their calls, those with the same inputs together."""
    calls: list[tuple[nn.Linear, Tensor]] = []
    hooks = [
        module.register_forward_pre_hook(lambda module, inputs: calls.append((module, inputs[0])))
        for module in matrices
    ]
    _output(layer, states, arguments)
    for hook in hooks:
        hook.remove()
    found: dict[int, list[nn.Linear]] = {}
    for module, inputs in calls:
        found.setdefault(id(inputs), []).append(module)
    return list(found.values())


def _moments(layer: nn.Module, matrix: nn.Linear, states: list[Tensor], arguments: _Arguments) -> Tensor:
    """Return the second moments E[x x^T] of the inputs of `matrix`, [in, in], with the layer's present weights."""
    total = torch.zeros(matrix.in_features, matrix.in_features)
    rows = 0

    def add(_: nn.Module, inputs: tuple[Tensor]) -> NoReturn:
        nonlocal rows
        flat = inputs[0].flatten(0, -2)
        total.addmm_(flat.T, flat)
        rows += len(flat)
        raise _StopForward

    hook = matrix.register_forward_pre_hook(add)
    for batch in states:
        try:
            _output(layer, batch, arguments)
        except _StopForward:
            continue
    hook.remove()
    if not total.isfinite().all():
        raise UnsupportedModel("its hidden states overflow in float32: it can't be calibrated")
    return total / rows
