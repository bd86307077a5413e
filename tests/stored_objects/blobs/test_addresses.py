"""Signed addresses: valid for an hour, for one object, and only as they were signed."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest

from stored_objects.blobs.addresses import LIFETIME, AddressSigner, address_key
from stored_objects.blobs.blobs import new_blob_id
from stored_objects.errors import AddressExpired, AddressForged
from tests.stored_objects.conftest import Clock

KEY = address_key(b"pepper" * 8)
BLOB = new_blob_id()


def parts(address: str) -> tuple[str, str, str]:
    """Return blob, expiry and signature of an address."""
    url = urlsplit(address)
    query = {name: values[0] for name, values in parse_qs(url.query).items()}
    return url.path.removeprefix("/v1/blobs/"), query["expires"], query["signature"]


def test_an_address_is_valid_for_an_hour(clock: Clock) -> None:
    signer = AddressSigner(KEY, clock)
    blob, expires, signature = parts(signer.address(BLOB))
    assert blob == BLOB
    AddressSigner(KEY, clock).verify(blob, expires, signature)  # another gateway
    clock.now += LIFETIME - 1
    signer.verify(blob, expires, signature)
    clock.now += 1
    with pytest.raises(AddressExpired):
        signer.verify(blob, expires, signature)


def test_an_address_begins_with_the_origin(clock: Clock) -> None:
    signer = AddressSigner(KEY, clock)
    assert signer.address(BLOB, "https://chat.example.org").startswith(f"https://chat.example.org/v1/blobs/{BLOB}?")
    assert signer.address(BLOB).startswith("/v1/blobs/")


def test_every_change_is_a_forgery(clock: Clock) -> None:
    signer = AddressSigner(KEY, clock)
    blob, expires, signature = parts(signer.address(BLOB))
    forged = [
        (new_blob_id(), expires, signature),
        (blob, str(int(expires) + 1), signature),
        (blob, f"0{expires}", signature),
        (blob, f"+{expires}", signature),
        (blob, "", signature),
        (blob, "\ud800", signature),
        (blob, expires, signature[:-1]),
        (blob, expires, signature.upper()),
        (blob, expires, "é" * 64),
        (blob, expires, ""),
        (f"{blob}\n1", expires, signature),
    ]
    for each in forged:
        with pytest.raises(AddressForged):
            signer.verify(*each)
    with pytest.raises(AddressForged):
        AddressSigner(address_key(b"another pepper" * 4), clock).verify(blob, expires, signature)


def test_a_signed_expiry_that_is_no_number_is_refused(clock: Clock) -> None:
    signer = AddressSigner(KEY, clock)
    for expires in ("", "١", "1e9", "-1", "9" * 5000):
        with pytest.raises(AddressForged):
            signer.verify(BLOB, expires, signer._signature(BLOB, expires))


def test_the_key_is_not_the_pepper() -> None:
    assert b"pepper" not in KEY
    assert len(KEY) == 32
