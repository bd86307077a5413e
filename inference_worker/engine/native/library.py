"""Python bindings of the engine's compiled CPU kernels: ctypes structures that mirror `src/decoder.h`, and calls.

Tensors must be contiguous and on the CPU. Structures hold addresses only, so the code that builds one must keep its
tensors alive. The interpreter lock is released while a kernel runs.
"""

from __future__ import annotations

import ctypes
import weakref
from ctypes import byref
from functools import cache
from typing import Literal

import structlog
import torch
from torch import Tensor

from inference_worker.engine.attention_backend import AttentionInputs, AttentionMetadata
from inference_worker.engine.kv_cache import KVCache
from inference_worker.engine.native.amx import check_in_child, request_tiles
from inference_worker.engine.native.build import INSTRUCTION_SETS, best_instructions, built_library, check_processor
from inference_worker.engine.native.packing import FLOATS, INT8, PackedWeight
from inference_worker.engine.native.step_interrupt import NEVER
from inference_worker.errors import ModelError, NativeError, NativeUnavailable
from inference_worker.settings import Instructions

log = structlog.get_logger(__name__)

AttentionBits = Literal[32, 8]
"""Bits of the numbers in prefill attention: float32, or 8, which are 13 without products of bytes (ADR 0042, 0045)."""
HEAD_STEP = 16
"""The head size must be a multiple of this."""

_int32, _int64, _float, _pointer = ctypes.c_int32, ctypes.c_int64, ctypes.c_float, ctypes.c_void_p


class LinearStruct(ctypes.Structure):
    """The ctypes mirror of `Linear` in `src/decoder.h`: a packed weight and its bias."""

    _fields_ = (
        ("format", _int64),
        ("inputs", _int64),
        ("outputs", _int64),
        ("panels", _pointer),
        ("bias", _pointer),
        ("activation_bits", _int64),
    )

    @classmethod
    def of(cls, weight: PackedWeight) -> LinearStruct:
        """Create the kernels' structure of a linear layer, with the sizes and the memory addresses of `weight`.

        The caller must keep `weight` alive.
        """
        bias = None if weight.bias is None else weight.bias.data_ptr()
        sizes = weight.inputs, weight.padded_outputs
        bits = 0 if weight.activation_bits == "auto" else weight.activation_bits
        return cls(weight.format, *sizes, weight.panels.data_ptr(), bias, bits)


class NormStruct(ctypes.Structure):
    """The ctypes mirror of `Norm` in `src/decoder.h`; a null weight means no normalisation."""

    _fields_ = (("weight", _pointer), ("epsilon", _float))


class LayerStruct(ctypes.Structure):
    """The ctypes mirror of `Layer` in `src/decoder.h`: the weights of one decoder layer."""

    _fields_ = (
        ("input_norm", NormStruct),
        ("post_norm", NormStruct),
        ("query_norm", NormStruct),
        ("key_norm", NormStruct),
        ("qkv", LinearStruct),
        ("output", LinearStruct),
        ("gate_up", LinearStruct),
        ("down", LinearStruct),
        ("rotary", _int64),
        ("window", _int64),
        ("keys", _pointer),
        ("values", _pointer),
    )


class HeadsStruct(ctypes.Structure):
    """The ctypes mirror of `Heads` in `src/attention.h`: the sizes of a model's attention heads."""

    _fields_ = (("query", _int64), ("kv", _int64), ("size", _int64))


class CacheStruct(ctypes.Structure):
    """The ctypes mirror of `Cache` in `src/decoder.h`: the number format and block size of the KV cache."""

    _fields_ = (("format", _int64), ("block_size", _int64), ("bits", _int64))

    @classmethod
    def of(cls, cache: KVCache, *, bits: AttentionBits) -> CacheStruct:
        """Create the kernels' structure that describes the number format and the block size of `cache`.

        Called for each call of `Kernels.attention`, and when a decoder binds a cache.
        `bits`: of the numbers in prefill attention, integers below 32 except in a float32 cache (ADR 0042, 0045).
        """
        form = INT8 if cache.shape.quantised else FLOATS[cache.shape.dtype]
        return cls(form, cache.shape.block_size, bits)


class ModelStruct(ctypes.Structure):
    """The ctypes mirror of `Model` in `src/decoder.h`: all weights and sizes of a decoder."""

    _fields_ = (
        ("hidden", _int64),
        ("inner", _int64),
        ("layers", _int64),
        ("heads", HeadsStruct),
        ("final_norm", NormStruct),
        ("layer", ctypes.POINTER(LayerStruct)),
        ("cache", CacheStruct),
    )


class StepStruct(ctypes.Structure):
    """The ctypes mirror of `Step` in `src/attention.h`: the attention metadata of a step."""

    _fields_ = (
        ("rows", _int64),
        ("sequences", _int64),
        ("table_width", _int64),
        ("query_start", _pointer),
        ("lengths", _pointer),
        ("block_tables", _pointer),
        ("slots", _pointer),
        ("read_from", _pointer),
        ("prompt_lengths", _pointer),
    )

    @classmethod
    def of(cls, metadata: AttentionMetadata) -> StepStruct:
        """Create the kernels' structure of a step's attention metadata, with the memory addresses of its tensors.

        The tensors must be contiguous int64; the caller must keep them alive.
        """
        sequences, width = metadata.block_tables.shape
        return cls(
            metadata.slot_mapping.shape[0],
            sequences,
            width,
            metadata.query_start.data_ptr(),
            metadata.sequence_lengths.data_ptr(),
            metadata.block_tables.data_ptr(),
            metadata.slot_mapping.data_ptr(),
            None if metadata.read_from is None else metadata.read_from.data_ptr(),
            None if metadata.prompt_lengths is None else metadata.prompt_lengths.data_ptr(),
        )


class WeightingStruct(ctypes.Structure):
    """The ctypes mirror of `Weighting` in `src/attention.h`: how a layer's scores become weights."""

    _fields_ = (("window", _int64), ("softcap", _float), ("sinks", _pointer))

    @classmethod
    def of(cls, inputs: AttentionInputs) -> WeightingStruct:
        """Create the kernels' structure of a layer's window, soft cap and sinks.

        The sinks must be contiguous; the caller must keep them alive.
        """
        sinks = None if inputs.sinks is None else inputs.sinks.data_ptr()
        return cls(inputs.sliding_window or 0, inputs.softcap or 0.0, sinks)


_PARAMETERS = {
    "create": (_int32, _pointer),
    "linear": (_pointer, _pointer, _pointer, _int64, ctypes.c_bool, _pointer),
    "gather": (_pointer, _pointer, _pointer, _int64, _pointer),
    "attention": (*[_pointer] * 9, _float, *[_pointer] * 2),
    "decode": (*[_pointer] * 6, _int64, _int32, _pointer),
}
"""Parameter types of the functions in `src/api.cpp` that return an error message or null."""


class Kernels:
    """The loaded library of compiled CPU kernels, with its threads and scratch memory. Not thread-safe.

    Attributes:
        instructions: the instruction set that the library is compiled for, a name in `build.INSTRUCTION_SETS`.
        panel: number of a weight's outputs that a kernel computes together; `packing.pack` needs it.
        multiplies_bytes: whether products of int8 weights are faster with 8-bit activations.
        multiplies_bfloat16: whether rows are rounded to bfloat16 beside bfloat16 weights, which then must be `paired`.
    """

    def __init__(self, threads: int, instructions: str | None = None) -> None:
        """Build and load the kernels, and start their threads; raises `NativeUnavailable` where that is impossible.

        Args:
            threads: number of compute threads.
            instructions: an instruction set that this machine can use; by default the fastest of them.
        """
        self.instructions = instructions or usable_instructions("auto")
        if INSTRUCTION_SETS[self.instructions].tiles:
            request_tiles()
        self._library = _load(self.instructions)
        self.panel: int = self._library.headrace_panel()
        self.multiplies_bytes: bool = self._library.headrace_multiplies_bytes()
        self.multiplies_bfloat16: bool = self._library.headrace_multiplies_bfloat16()
        self._handle = _pointer()
        self._call("create", threads, byref(self._handle))
        weakref.finalize(self, self._library.headrace_destroy, self._handle)

    def linear(self, weight: PackedWeight, x: Tensor, *, prompt: bool = False) -> Tensor:
        """Compute a linear layer with a packed weight, `x @ weight.T + bias`: [R, in] float32 to [R, out].

        `prompt`: compute the rows as those of prompts, for which kernels may use other panels (ADR 0044, 0093).
        """
        out = x.new_empty(x.shape[0], weight.padded_outputs)
        struct = byref(LinearStruct.of(weight))
        self._call("linear", self._handle, struct, x.data_ptr(), x.shape[0], prompt, out.data_ptr())
        return out[:, : weight.outputs]

    def gather(self, weight: PackedWeight, rows: Tensor) -> Tensor:
        """Return rows of a packed weight as float32, as a token embedding does: ids [T] int64 to [T, in].

        The ids must be below `weight.outputs`.
        """
        out = torch.empty(len(rows), weight.inputs)
        struct = byref(LinearStruct.of(weight))
        self._call("gather", self._handle, struct, rows.data_ptr(), len(rows), out.data_ptr())
        return out

    def attention(
        self, cache: KVCache, inputs: AttentionInputs, metadata: AttentionMetadata, *, bits: AttentionBits = 32
    ) -> Tensor:
        """Compute one layer's attention for the T tokens of a step: [T, query heads, head size] float32.

        First writes the layer's new keys and values to `cache`. `inputs` must be float32 and contiguous; `bits`: of
        the numbers in prefill attention, as for `CacheStruct.of`.
        """
        query, key = inputs.query, inputs.key
        out = query.new_empty(query.shape)
        self._call(
            "attention",
            self._handle,
            byref(HeadsStruct(query.shape[1], *key.shape[1:])),
            byref(CacheStruct.of(cache, bits=bits)),
            cache.keys[inputs.layer].data_ptr(),
            cache.values[inputs.layer].data_ptr(),
            byref(StepStruct.of(metadata)),
            *(tensor.data_ptr() for tensor in (query, key, inputs.value)),
            inputs.scale,
            byref(WeightingStruct.of(inputs)),
            out.data_ptr(),
        )
        return out

    def decode(
        self,
        model: ModelStruct,
        metadata: AttentionMetadata,
        rows: tuple[Tensor, Tensor, Tensor],
        *,
        first: int = 0,
        wakeup_fd: int = NEVER,
    ) -> int:
        """Compute a decoder's layers from number `first` on, and the final norm, over the states in `rows`, in place.

        Args:
            model: the model's structures, with the addresses of its cache.
            metadata: metadata of the step.
            rows: cosines, sines ([T, head size / 2] each) and states ([T, hidden]), float32.
            first: index of the layer to start with.
            wakeup_fd: a file descriptor; the call returns between two layers once it is readable. `NEVER`: it computes
                all layers; `AT_NEXT_LAYER`: it returns after one.

        Returns:
            Number of layers computed so far, fewer than the model's if the call was interrupted.
        """
        step, done = byref(StepStruct.of(metadata)), _int64()
        addresses = (tensor.data_ptr() for tensor in rows)
        self._call("decode", self._handle, byref(model), step, *addresses, first, wakeup_fd, byref(done))
        return done.value

    def _call(self, function: str, *arguments: object) -> None:
        """Call `headrace_<function>`; raises `NativeError` with the message that it returns, if any."""
        message: bytes | None = getattr(self._library, f"headrace_{function}")(*arguments)
        if message is not None:
            raise NativeError(message.decode(errors="replace"))


@cache
def usable_instructions(wanted: Instructions) -> str:
    """Return the name of the instruction set with which kernels compute; may compile and check them.

    With "auto" it is the fastest that this machine has. AMX is not used, and the log says why, where its kernels can't
    be compiled, the operating system refuses it, or its products are wrong.

    Raises:
        NativeUnavailable: `wanted` is "auto", and the processor has no supported instruction set.
        ModelError: the `wanted` instruction set can't be used on this machine.
    """
    if wanted != "auto":
        try:
            check_processor(wanted)
            _check_usable(wanted)
        except NativeUnavailable as error:
            raise ModelError(f"instructions {wanted}: {error}") from error
        return wanted
    best = best_instructions()
    if INSTRUCTION_SETS[best].tiles:
        try:
            _check_usable(best)
        except NativeUnavailable as error:
            log.warning("the kernels don't use AMX", reason=str(error))
            return best_instructions(tiles=False)
    return best


def _check_usable(instructions: str) -> None:
    """Raise `NativeUnavailable` if the kernels can't be compiled and loaded, or can't use AMX though made for it."""
    _load(instructions)
    if INSTRUCTION_SETS[instructions].tiles:
        request_tiles()
        check_in_child(instructions, built_library(instructions), torch.get_num_threads())


@cache
def _load(instructions: str) -> ctypes.CDLL:
    path = built_library(instructions)
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:  # for example a cache folder on a file system mounted with noexec
        raise NativeUnavailable(f"can't load the kernels: {error}") from error
    for name, parameters in _PARAMETERS.items():
        function = getattr(library, f"headrace_{name}")
        function.argtypes, function.restype = parameters, ctypes.c_char_p
    library.headrace_destroy.restype = None
    library.headrace_panel.restype = _int64
    library.headrace_multiplies_bytes.restype = ctypes.c_bool
    library.headrace_multiplies_bfloat16.restype = ctypes.c_bool
    library.headrace_has_tiles.restype = ctypes.c_bool
    if INSTRUCTION_SETS[instructions].tiles and not library.headrace_has_tiles():
        raise NativeUnavailable("the compiler built the kernels without AMX's tiles: it is too old")
    return library
