"""The compiled kernels as Python calls: ctypes structures that mirror `src/decoder.h`, filled from tensors.

Tensors must be contiguous, on the CPU and alive during the call; structures hold addresses only, so whoever builds one
keeps its tensors. The interpreter lock is released while a kernel runs.
"""

from __future__ import annotations

import ctypes
import weakref
from functools import cache

import torch
from torch import Tensor

from inference_worker.engine.attention_backend import AttentionMetadata
from inference_worker.engine.kv_cache import KVCache
from inference_worker.engine.native.build import best_instructions, built_library
from inference_worker.engine.native.interlude import NOBODY
from inference_worker.engine.native.packing import FLOATS, INT8, PackedWeight
from inference_worker.errors import NativeError, NativeUnavailable

HEAD_STEP = 16
"""Heads must have a multiple of so many dimensions."""

_int64, _float, _pointer = ctypes.c_int64, ctypes.c_float, ctypes.c_void_p


class LinearStruct(ctypes.Structure):
    """`Linear`."""

    _fields_ = (
        ("format", _int64),
        ("inputs", _int64),
        ("outputs", _int64),
        ("panels", _pointer),
        ("bias", _pointer),
    )

    @classmethod
    def of(cls, weight: PackedWeight) -> LinearStruct:
        """The addresses of a packed weight."""
        bias = None if weight.bias is None else weight.bias.data_ptr()
        return cls(weight.format, weight.inputs, weight.padded_outputs, weight.panels.data_ptr(), bias)


class NormStruct(ctypes.Structure):
    """`Norm`; without a weight: none."""

    _fields_ = (("weight", _pointer), ("epsilon", _float))


class LayerStruct(ctypes.Structure):
    """`Layer`."""

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
    """`Heads`."""

    _fields_ = (("query", _int64), ("kv", _int64), ("size", _int64))


class CacheStruct(ctypes.Structure):
    """`Cache`."""

    _fields_ = (("format", _int64), ("block_size", _int64), ("rough", _int64))

    @classmethod
    def of(cls, cache: KVCache, *, rough: bool) -> CacheStruct:
        """How a cache lies in memory; `rough`: many rows attend in whole numbers (ADR 0042), unless it has 32 bits."""
        form = INT8 if cache.shape.quantised else FLOATS[cache.shape.dtype]
        return cls(form, cache.shape.block_size, rough)


class ModelStruct(ctypes.Structure):
    """`Model`."""

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
    """`Step`."""

    _fields_ = (
        ("rows", _int64),
        ("sequences", _int64),
        ("table_width", _int64),
        ("query_start", _pointer),
        ("lengths", _pointer),
        ("block_tables", _pointer),
        ("slots", _pointer),
        ("read_from", _pointer),
    )

    @classmethod
    def of(cls, metadata: AttentionMetadata) -> StepStruct:
        """The addresses of a step's metadata: int64, contiguous."""
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
        )


class Kernels:
    """A team of threads and its memory. Not for several Python threads at once.

    Attributes:
        instructions: what they are compiled for, a name of `build.INSTRUCTION_SETS`.
        panel: outputs of a weight that they compute together; `packing.pack` lays weights out by it.
        multiplies_bytes: whether they are faster with rows of 8 bits beside int8 weights, too.
    """

    def __init__(self, threads: int, instructions: str | None = None) -> None:
        """Raises `NativeUnavailable` where the kernels can't be built or run.

        Args:
            threads: that compute.
            instructions: that this processor has; by default the fastest.
        """
        self.instructions = instructions or best_instructions()
        self._library = _loaded(self.instructions)
        self.panel: int = self._library.headrace_panel()
        self.multiplies_bytes: bool = self._library.headrace_multiplies_bytes()
        self._handle = _pointer()
        _check(self._library.headrace_create(threads, ctypes.byref(self._handle)))
        weakref.finalize(self, self._library.headrace_destroy, self._handle)

    def linear(self, weight: PackedWeight, x: Tensor) -> Tensor:
        """`x @ weight.T + bias`: [R, in] float32 to [R, out]."""
        out = x.new_empty(x.shape[0], weight.padded_outputs)
        struct = LinearStruct.of(weight)
        _check(
            self._library.headrace_linear(
                self._handle, ctypes.byref(struct), _pointer(x.data_ptr()), _int64(x.shape[0]), _pointer(out.data_ptr())
            )
        )
        return out[:, : weight.outputs]

    def take(self, weight: PackedWeight, outputs: Tensor) -> Tensor:
        """Rows of the weight, for a table of embeddings: [T] int64, each below `weight.outputs`, to [T, in] float32."""
        out = torch.empty(len(outputs), weight.inputs)
        struct = LinearStruct.of(weight)
        _check(
            self._library.headrace_take(
                self._handle,
                ctypes.byref(struct),
                _pointer(outputs.data_ptr()),
                _int64(len(outputs)),
                _pointer(out.data_ptr()),
            )
        )
        return out

    def attention(
        self,
        cache: KVCache,
        layer: int,
        rows: tuple[Tensor, Tensor, Tensor],
        metadata: AttentionMetadata,
        *,
        scale: float,
        window: int | None,
        rough: bool = False,
    ) -> Tensor:
        """See `AttentionBackend.forward`; `rows` are query, key and value, float32, contiguous; `rough`: ADR 0042."""
        query, key, _ = rows
        out = query.new_empty(query.shape)
        heads = HeadsStruct(query.shape[1], *key.shape[1:])
        form, step = CacheStruct.of(cache, rough=rough), StepStruct.of(metadata)
        _check(
            self._library.headrace_attention(
                self._handle,
                ctypes.byref(heads),
                ctypes.byref(form),
                _pointer(cache.keys[layer].data_ptr()),
                _pointer(cache.values[layer].data_ptr()),
                ctypes.byref(step),
                *(_pointer(tensor.data_ptr()) for tensor in rows),
                _float(scale),
                _int64(window or 0),
                _pointer(out.data_ptr()),
            )
        )
        return out

    def decode(
        self,
        model: ModelStruct,
        metadata: AttentionMetadata,
        rows: tuple[Tensor, Tensor, Tensor],
        *,
        first: int = 0,
        wake: int = NOBODY,
    ) -> int:
        """All layers and the final norm, in place.

        Args:
            model: with the cache.
            metadata: of the step.
            rows: cosines, sines ([T, head size / 2] each) and states ([T, hidden]), float32.
            first: layer to go on with; those before it are done.
            wake: a file descriptor; when something can be read from it, this gives way between two layers.

        Returns:
            How many layers are done: fewer than there are if it gave way.
        """
        step, done = StepStruct.of(metadata), _int64()
        _check(
            self._library.headrace_decode(
                self._handle,
                ctypes.byref(model),
                ctypes.byref(step),
                *(_pointer(tensor.data_ptr()) for tensor in rows),
                _int64(first),
                ctypes.c_int32(wake),
                ctypes.byref(done),
            )
        )
        return done.value


@cache
def _loaded(instructions: str) -> ctypes.CDLL:
    path = built_library(instructions)
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:  # a cache folder on a file system that must not hold programs, say
        raise NativeUnavailable(f"can't load the kernels: {error}") from error
    for name in ("create", "linear", "take", "attention", "decode"):
        getattr(library, f"headrace_{name}").restype = ctypes.c_char_p
    library.headrace_destroy.restype = None
    library.headrace_panel.restype = _int64
    library.headrace_multiplies_bytes.restype = ctypes.c_bool
    return library


def _check(message: bytes | None) -> None:
    if message is not None:
        raise NativeError(message.decode(errors="replace"))
