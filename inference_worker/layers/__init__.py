"""Building blocks of models: norms, rotary embedding, projections."""
