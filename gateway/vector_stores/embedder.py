"""Chooses the model that embeds a vector store, and how long its passages may be."""

from __future__ import annotations

from auth_billing.access.principal import Principal
from gateway.errors import InvalidRequest, ModelNotFound
from gateway.openai.vector_stores import StaticChunking
from gateway.vector_stores.services import SearchServices
from router.messages import Task
from router.model_registry import ModelInfo
from stored_objects.vector_stores.records import Chunking

AUTO_TOKENS, AUTO_OVERLAP_SHARE = 400, 8
"""Most tokens of a passage by the strategy `auto`, and the share of it that two passages have in common (an eighth)."""
SPECIAL_TOKENS = 2
"""Tokens that an embedding model adds to a text."""
MIN_TOKENS = 16
"""Fewest tokens of a passage, also for a model that reads less."""
_NO_EMBEDDER = "No embedding model is served that you may use, and a vector store needs one."


def embedder_of(services: SearchServices, caller: Principal) -> ModelInfo:
    """Return the model that embeds a new vector store: that of the setting, or the only served embedding model.

    Raises:
        InvalidRequest: There is none that the caller may use, or there are several and the setting names none.
        ModelUnavailable: No worker was heard of yet.
    """
    if named := services.settings.embedding_model:
        try:
            return served_embedder(services, caller, named)
        except ModelNotFound as error:
            raise InvalidRequest(_NO_EMBEDDER, code="model_not_found") from error
    served = {model.name: model for _, model in services.catalogue.listed(caller.models) if model.task is Task.EMBED}
    if len(served) == 1:
        return next(iter(served.values()))
    if served:
        raise InvalidRequest(
            "Several embedding models are served: the operator has to name one in HEADRACE_EMBEDDING_MODEL.",
            code="model_not_chosen",
        )
    raise InvalidRequest(_NO_EMBEDDER, code="model_not_found")


def served_embedder(services: SearchServices, caller: Principal, name: str) -> ModelInfo:
    """Return the embedding model with this name, which embeds a vector store.

    Raises:
        ModelNotFound, ModelUnavailable: The model is not served, or the caller may not use it.
        InvalidRequest: The model makes no embeddings.
    """
    try:
        model = services.catalogue.find(name, caller.models, param="vector_store_id")
    except ModelNotFound as error:
        message = f"The vector store's embedding model '{name}' is not served, or you do not have access to it."
        raise ModelNotFound(message, param="vector_store_id") from error
    if model.task is not Task.EMBED:
        raise InvalidRequest(f"The model '{model.name}' makes no embeddings.", code="model_not_found")
    return model


def chunking_for(model: ModelInfo, sizes: StaticChunking | None) -> Chunking:
    """Return how a file is cut for `model`, which bounds the passages: by `sizes`, or automatically."""
    longest = max(MIN_TOKENS, model.max_model_len - SPECIAL_TOKENS)
    if sizes is None:
        tokens = min(AUTO_TOKENS, longest)
        return Chunking(tokens, tokens // AUTO_OVERLAP_SHARE, auto=True)
    tokens = min(sizes.max_chunk_size_tokens, longest)
    return Chunking(tokens, min(sizes.chunk_overlap_tokens, tokens // 2))
