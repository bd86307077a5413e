"""One file a family, named as its `model_type`; every other family through `transformers_backend`."""
