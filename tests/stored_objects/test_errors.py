"""The tree of errors: each has one base that callers catch."""

from __future__ import annotations

import inspect

from stored_objects import errors


def test_every_error_is_a_stored_object_error_with_a_docstring() -> None:
    found = [each for _, each in inspect.getmembers(errors, inspect.isclass) if each.__module__ == errors.__name__]
    assert all(issubclass(each, errors.StoredObjectError) and each.__doc__ for each in found)


def test_too_large_a_blob_has_its_sizes() -> None:
    error = errors.BlobTooLarge(5, 3)
    assert (error.size, error.limit) == (5, 3)
