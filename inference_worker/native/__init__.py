"""The CPU's compiled kernels: C++ for AVX2 or AVX-512 (`src/`), built once on the machine that runs them, called through ctypes.

Without a compiler or AVX2 nothing here is used and PyTorch computes everything. Knows weights, rows and the paged
cache; not engines, requests or files of models.
"""
