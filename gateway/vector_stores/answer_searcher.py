"""Searches vector stores for a response, with the rights that its caller has at that moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from auth_billing.access.model_access import ALL_MODELS
from auth_billing.access.principal import Principal
from auth_billing.administration import Administration
from auth_billing.authenticator import Authenticator
from gateway.admission.controller import AdmissionController
from gateway.admission.model_catalogue import ModelCatalogue
from gateway.errors import InvalidRequest, ModelNotFound
from gateway.jobs.prompt_files import files_owner
from gateway.openai.responses.tools import FileSearchTool
from gateway.openai.vector_store_search import RankingOptions
from gateway.settings import GatewaySettings
from gateway.vector_stores.access import check_embeds, find_store
from gateway.vector_stores.query_jobs import Submit, chosen_reranker
from gateway.vector_stores.search import ANSWER_RESULTS, Queries, SearchHit, search_stores
from router.messages import UsagePart
from stored_objects.vector_stores.records import VectorStore
from stored_objects.vector_stores.searches import VectorStoreSearches
from stored_objects.vector_stores.vector_stores import VectorStores


@dataclass(frozen=True)
class AnswerSearcher:
    """Searches for the tool `file_search` of responses."""

    settings: GatewaySettings
    administration: Administration
    catalogue: ModelCatalogue
    admission: AdmissionController
    vector_stores: VectorStores
    searches: VectorStoreSearches
    authenticator: Authenticator

    async def stores(self, caller: Principal, tool: FileSearchTool) -> list[VectorStore]:
        """Return the vector stores of the tool, for a caller that may search them.

        Raises:
            ScopeMissing: The caller may not read the project's files, or make embeddings.
            DocumentNotFound: The project has no such vector store, or the caller may not read it.
            InvalidRequest: A vector store has expired.
        """
        files_owner(caller)
        check_embeds(caller)
        return [await find_store(self, caller, id) for id in dict.fromkeys(tool.vector_store_ids)]

    async def search(
        self, caller: Principal, tool: FileSearchTool, texts: Sequence[str], submit: Submit, *, address: str
    ) -> tuple[list[SearchHit], list[UsagePart]]:
        """Return the passages that fit the query `texts` best, and what the jobs of the search have used.

        `address`: network address of the client, for the audit log.

        Raises:
            Exception: As `stores` and `search_stores` do.
        """
        options = tool.ranking_options or RankingOptions()
        limit = tool.max_num_results or ANSWER_RESULTS
        required = options.score_threshold is None if options.only_if_relevant is None else options.only_if_relevant
        queries = Queries(texts, limit, tool.filters, options, requires_relevance=required)
        stores = await self.stores(caller, tool)
        return await search_stores(self, caller, stores, queries, submit, address=address)

    async def caller_now(self, caller: Principal, tool: FileSearchTool, model: str) -> Principal:
        """Return the caller of an accepted request with the rights of this moment, for a search and for `model` after.

        Raises:
            InvalidApiKey, NoSuchRecord: The key was revoked, or the person is no member any more.
            InvalidRequest: The caller may not use the model, the reranker or one that embeds a store any more.
            StoreUnavailable: The rights can't be read now.
            Exception: As `stores` does.
        """
        if caller.key_id:
            found = await self.authenticator.principal_of_key(caller.key_id)
        else:
            found = await self.authenticator.principal_of_member(caller.tenant, caller.project, caller.user)
        names = [model, *(each.embedder for each in await self.stores(found, tool))]
        unrestricted, ranking = replace(found, models=ALL_MODELS), tool.ranking_options or RankingOptions()
        if (reranker := chosen_reranker(self, unrestricted, ranking)) is not None:
            names.append(reranker.name)
        for name in dict.fromkeys(names):
            try:
                self.catalogue.find(name, found.models)
            except ModelNotFound as error:
                self.catalogue.find(name, ALL_MODELS)
                raise InvalidRequest(str(error), code="model_not_found") from error
        return found
