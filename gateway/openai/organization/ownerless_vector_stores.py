"""Response models of `/v1/organization/ownerless_vector_stores` (an extension)."""

from __future__ import annotations

from typing import Literal

from gateway.openai.base import ApiModel
from gateway.openai.pagination import ItemList


class OwnerlessVectorStore(ApiModel):
    """A vector store of a person who is no member of the organisation any more."""

    id: str
    object: Literal["organization.ownerless_vector_store"] = "organization.ownerless_vector_store"
    created_at: int
    name: str
    project_id: str
    """Id of the project whose quota it counts towards."""
    user_id: str
    """Id of the person whose it was."""
    files: int
    """Number of its files."""
    usage_bytes: int


class OwnerlessVectorStoreList(ItemList[OwnerlessVectorStore]):
    """A page of the organisation's vector stores without an owner, the newest first."""
