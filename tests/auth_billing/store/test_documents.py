from dataclasses import dataclass

from auth_billing.store.documents import from_document, to_document


@dataclass(frozen=True)
class Record:
    id: str
    name: str
    tags: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Keyless:
    name: str


def test_a_document_has_a_records_fields_with_its_id_as_id() -> None:
    record = Record("1", "one", frozenset("ba"))

    assert to_document(record, tags=["a", "b"], forget=5) == {
        "_id": "1",
        "name": "one",
        "tags": ["a", "b"],
        "forget": 5,
    }


def test_a_record_is_read_without_the_fields_that_it_does_not_have() -> None:
    document = {"_id": "1", "name": "one", "tags": ["a"], "forget": 5}

    assert from_document(Record, document, tags=frozenset("a")) == Record("1", "one", frozenset("a"))
    assert from_document(Keyless, document) == Keyless("one")


def test_missing_fields_get_their_default() -> None:
    assert from_document(Record, {"_id": "1", "name": "one"}) == Record("1", "one")
