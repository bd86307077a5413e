"""Comparison of names: without case, diacritics and apostrophes, as geocoders and encyclopedias compare them."""

from __future__ import annotations

import unicodedata

_APOSTROPHES = str.maketrans("", "", "'’")


def folded(name: str) -> str:
    """Return a name without case, diacritics and apostrophes: "Łódź" and "lodz" are equal so."""
    spread = unicodedata.normalize("NFKD", name.casefold().replace("ł", "l"))
    plain = "".join(each for each in spread if not unicodedata.combining(each))
    return plain.translate(_APOSTROPHES).strip()
