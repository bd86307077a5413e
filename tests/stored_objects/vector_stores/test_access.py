"""Who may read and who may change a vector store: persons, projects and the organisation, by sessions and API keys."""

from __future__ import annotations

import pytest

from auth_billing.access.principal import Principal
from stored_objects.project_documents.records import ProjectOwner
from stored_objects.vector_stores.access import (
    ORGANISATION,
    Reader,
    StoreScope,
    person_grantee,
    person_of,
    project_grantee,
)
from stored_objects.vector_stores.records import VectorStore

PROJECT, OTHER_PROJECT = ProjectOwner("org-1", "proj-1"), ProjectOwner("org-1", "proj-2")
NO_PROJECT, OTHER_ORGANISATION = ProjectOwner("org-1", ""), ProjectOwner("org-2", "proj-1")


def vector_store(person: str = "", shared_with: list[str] | None = None) -> VectorStore:
    return VectorStore(
        "vs_1", "org-1", "proj-1", 0.0, 0.0, embedder="minilm", person=person, shared_with=shared_with or []
    )


@pytest.mark.parametrize(
    ("store", "scope", "owner_grantee"),
    [
        (vector_store(), StoreScope.PROJECT, "project:proj-1"),
        (vector_store(shared_with=[ORGANISATION]), StoreScope.ORGANISATION, "project:proj-1"),
        (vector_store("ada"), StoreScope.PERSON, "person:ada"),
        (vector_store("ada", [ORGANISATION]), StoreScope.PERSON, "person:ada"),
    ],
)
def test_a_vector_store_is_a_persons_a_projects_or_the_organisations(
    store: VectorStore, scope: StoreScope, owner_grantee: str
) -> None:
    assert (StoreScope.of(store), store.owner_grantee) == (scope, owner_grantee)
    assert store.readers == [owner_grantee, *store.shared_with]


def test_only_the_mark_of_a_person_names_one() -> None:
    assert person_of(person_grantee("ada")) == "ada"
    assert [person_of(each) for each in (project_grantee("ada"), ORGANISATION, "")] == [None, None, None]


@pytest.mark.parametrize(
    ("reader", "grantees"),
    [
        (Reader(PROJECT, "ada"), ["organisation", "project:proj-1", "person:ada"]),
        (Reader(PROJECT), ["organisation", "project:proj-1"]),
        (Reader(NO_PROJECT, "ada", in_session=True), ["organisation", "person:ada"]),
        (Reader(NO_PROJECT), ["organisation"]),
    ],
)
def test_a_reader_has_marks_of_what_is_known_of_it_alone(reader: Reader, grantees: list[str]) -> None:
    """An empty project or person gives no grantee: it would be that of all who have none."""
    assert (reader.organisation, reader.grantees) == ("org-1", grantees)


def test_a_principal_reads_in_its_project_and_is_in_a_session_without_a_key() -> None:
    by_key = Principal("key-1", "org-1", "salt", project="proj-1", user="ada")
    in_session = Principal("", "org-1", "salt", project="proj-1", user="ada")
    assert Reader.of(by_key) == Reader(PROJECT, "ada")
    assert Reader.of(in_session) == Reader(PROJECT, "ada", in_session=True)


@pytest.mark.parametrize(
    ("reader", "may_change_projects", "may_change_adas"),
    [
        (Reader(PROJECT, "ada", in_session=True), True, True),
        (Reader(OTHER_PROJECT, "ada", in_session=True), False, True),
        (Reader(NO_PROJECT, "ada", in_session=True), False, True),
        (Reader(OTHER_ORGANISATION, "ada", in_session=True), False, False),
        (Reader(PROJECT, "bob", in_session=True), True, False),
        (Reader(PROJECT, "ada"), True, True),
        (Reader(PROJECT, "bob"), True, False),
        (Reader(PROJECT), True, False),
        (Reader(OTHER_PROJECT, "ada"), False, False),
        (Reader(OTHER_ORGANISATION, "ada"), False, False),
    ],
)
def test_owners_change_a_vector_store_however_many_read_it(
    reader: Reader, *, may_change_projects: bool, may_change_adas: bool
) -> None:
    grantees = [ORGANISATION, person_grantee("bob"), project_grantee("proj-1"), project_grantee("proj-2")]
    for shared_with in ([], grantees):
        assert reader.may_change(vector_store(shared_with=shared_with)) is may_change_projects
        assert reader.may_change(vector_store("ada", shared_with)) is may_change_adas
