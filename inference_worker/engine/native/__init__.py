"""The CPU's compiled kernels: C++ (`src/`), built once on the machine that runs them, called through ctypes.

They use AVX-512 with VNNI where the processor has it, else AVX2. Without that or a compiler nothing here is used and
PyTorch computes everything. Knows weights, rows and the paged cache; not engines, requests or files of models.
"""
