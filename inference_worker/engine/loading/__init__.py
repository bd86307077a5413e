"""Model loading: dtypes, weights, and the conversion to compiled kernels."""
