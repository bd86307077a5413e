"""Records of stored objects: when one can be read."""

from __future__ import annotations

from dataclasses import replace

from stored_objects.blobs.blobs import new_blob_id
from stored_objects.objects.records import ObjectKind, ObjectOwner, ObjectState, StoredObject

RECORD = StoredObject(new_blob_id(), "org-1", "user-ada", ObjectKind.FILE, "text/plain", 1, 0.0, 10.0)


def test_an_object_is_available_when_it_is_ready_and_has_not_expired() -> None:
    ready = replace(RECORD, state=ObjectState.READY)
    assert ready.is_available(9.0)
    assert not ready.is_available(10.0)
    assert replace(ready, references=["chat-1"], kept=1).is_available(11.0)
    assert not any(
        replace(RECORD, state=each).is_available(9.0) for each in (ObjectState.PENDING, ObjectState.DELETING)
    )
    assert ready.owner == ObjectOwner("org-1", "user-ada")
