"""Model families: one file per `model_type`; all other families use `transformers_backend`."""
