"""Compiled CPU kernels of the engine: C++ (`src/`), built on the machine that runs them and called through ctypes.

Container images have them built in. They use AVX-512 with VNNI where the processor has it, with AVX512-BF16 and AMX
if it has these, else AVX2; on ARM (AArch64) NEON with dot products of bytes. Without these or a compiler the engine
computes everything with PyTorch.
"""
