"""Request and response models of `POST /v1/vector_stores/{vector_store_id}/search`, with its filters and ranking.

Source: OpenAI's specification.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from gateway.openai.base import ApiModel, Ignored, RequestBody, conflict
from gateway.openai.vector_stores import Attributes, AttributeValue, PassageContent

MAX_RESULTS = 50
"""Most passages that one search returns."""
MAX_QUERIES = 16
"""Most queries of one search."""
MAX_QUERY = 8192
"""Most characters of a query."""
MAX_CONDITIONS = 64
"""Most values that the filter of a search compares."""
MAX_DEPTH = 8
"""Most filters that are nested in one another."""


class ComparisonFilter(ApiModel):
    """Compares one attribute of a file with a value."""

    type: Literal["eq", "ne", "gt", "gte", "lt", "lte", "in", "nin"]
    key: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    value: AttributeValue | Annotated[list[AttributeValue], Field(max_length=MAX_CONDITIONS)]

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if isinstance(self.value, list) != (self.type in ("in", "nin")):
            raise conflict("value", "it must be a list with 'in' and 'nin', and none with other types")
        return self


class CompoundFilter(ApiModel):
    """Combines filters."""

    type: Literal["and", "or"]
    filters: Annotated[list[ComparisonFilter | CompoundFilter], Field(max_length=MAX_CONDITIONS)]


SearchFilter = ComparisonFilter | CompoundFilter


def check_filter(given: SearchFilter) -> None:
    """Raise if a filter compares too many values or is nested too deep.

    Raises:
        PydanticCustomError: for a validator.
    """
    if (size := _extent(given))[0] > MAX_CONDITIONS or size[1] > MAX_DEPTH:
        raise conflict(
            "filters",
            f"at most {MAX_CONDITIONS} values are compared, and {MAX_DEPTH} filters are nested in one another",
        )


def _extent(given: SearchFilter) -> tuple[int, int]:
    """Return how many values a filter compares, and how deep it is nested."""
    if isinstance(given, ComparisonFilter):
        return (len(given.value) if isinstance(given.value, list) else 1), 1
    inner = [_extent(each) for each in given.filters]
    return sum(size for size, _ in inner), 1 + max((depth for _, depth in inner), default=0)


class HybridWeights(ApiModel):
    """Weights of the searches by vectors and by words, whose results are fused; one of them is above 0."""

    embedding_weight: Annotated[float, Field(ge=0, le=1000)]
    text_weight: Annotated[float, Field(ge=0, le=1000)]

    @model_validator(mode="after")
    def _some_weight(self) -> Self:
        if not self.embedding_weight + self.text_weight:
            raise conflict("embedding_weight", "it or 'text_weight' must be above 0")
        return self


class RankingOptions(ApiModel):
    """How passages are ranked."""

    ranker: Annotated[str, StringConstraints(min_length=1, max_length=256)] | None = None
    """`auto` (default): the reranker of the installation, if it has one; `none` and OpenAI's names of rankers: the
    fusion of words and vectors alone. As an extension, the name of a model as `/v1/models` lists it (`task`: `score`),
    which ranks the first 50 passages again."""
    score_threshold: Annotated[float, Field(ge=0, le=1)] | None = None
    hybrid_search: HybridWeights | None = None
    only_if_relevant: bool | None = None
    """Return no passages if the best ones are not relevant to the query: an extension. `file_search` does so by default
    unless it has a `score_threshold`."""


class VectorStoreSearch(RequestBody):
    """Body of `POST /v1/vector_stores/{vector_store_id}/search`."""

    query: (
        Annotated[str, StringConstraints(min_length=1, max_length=MAX_QUERY)]
        | Annotated[
            list[Annotated[str, StringConstraints(min_length=1, max_length=MAX_QUERY)]],
            Field(min_length=1, max_length=MAX_QUERIES),
        ]
    )
    """A query, or up to 16: a passage has the best of its scores."""
    rewrite_query: Ignored[bool | None] = None
    """Queries are searched for as they are; the response repeats them in `search_query`."""
    max_num_results: Annotated[int, Field(ge=1, le=MAX_RESULTS)] | None = None
    """Maximum number of passages; default 10."""
    filters: SearchFilter | None = None
    """Only files whose attributes pass: `eq`, `ne`, `gt`, `gte`, `lt`, `lte`, `in` or `nin` of a `key` and a `value`,
    or `and` or `or` of `filters`."""
    ranking_options: RankingOptions | None = None
    """`score_threshold` leaves out passages with lower scores; `hybrid_search` weighs vectors and words; `ranker`
    may name a model that ranks their first 50 passages again, an extension; with `only_if_relevant`, another one,
    nothing is returned where no passage is relevant."""

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if self.filters is not None:
            check_filter(self.filters)
        return self

    @property
    def queries(self) -> list[str]:
        """The queries, at least one."""
        return [self.query] if isinstance(self.query, str) else self.query


class SearchResult(ApiModel):
    """A passage that fits a search."""

    file_id: str
    filename: str
    score: float
    attributes: Attributes
    content: list[PassageContent]
    passage: int
    """An extension: number of the passage in the file's content, from 0."""


class SearchResultPage(ApiModel):
    """The passages that fit a search, the best first."""

    object: Literal["vector_store.search_results.page"] = "vector_store.search_results.page"
    search_query: list[str]
    data: list[SearchResult]
    has_more: bool
    next_page: str | None
