"""Interface of the services with which vector stores are searched, as `Gateway` has them."""

from __future__ import annotations

from typing import Protocol

from auth_billing.administration import Administration
from gateway.admission.controller import AdmissionController
from gateway.admission.model_catalogue import ModelCatalogue
from gateway.settings import GatewaySettings
from stored_objects.vector_stores.searches import VectorStoreSearches
from stored_objects.vector_stores.vector_stores import VectorStores


class SearchServices(Protocol):
    """Services of a gateway that embed queries and search vector stores."""

    @property
    def settings(self) -> GatewaySettings:
        """The gateway's settings."""

    @property
    def administration(self) -> Administration:
        """Has the audit log of accesses to documents."""

    @property
    def catalogue(self) -> ModelCatalogue:
        """The models that are served."""

    @property
    def admission(self) -> AdmissionController:
        """Admits the jobs that embed queries."""

    @property
    def vector_stores(self) -> VectorStores:
        """The vector stores of all projects."""

    @property
    def searches(self) -> VectorStoreSearches:
        """The indexes of vector stores."""
