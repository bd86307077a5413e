"""Model definitions, one file a family, named as its `model_type`."""
