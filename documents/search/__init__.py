"""Search in passages: words by BM25 and vectors by an exact scan, fused, in files that are derived from a store."""
