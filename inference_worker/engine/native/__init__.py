"""Compiled CPU kernels: C++ (`src/`), built once on the machine that runs them,
or shipped in the container image, and called through ctypes.

They use AVX-512 with VNNI where the processor has it, else AVX2. Without AVX2 or a compiler the engine computes
everything with PyTorch.
"""
