"""`docs/other-apis.md` matches the request models of other vendors' APIs."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.dialects.documentation import OTHER_ENDPOINTS, PREAMBLE
from gateway.openai.base import RequestBody
from gateway.openai.compatibility import page, rows

PAGE = Path(__file__).resolve().parents[3] / "docs" / "other-apis.md"


def test_the_page_matches_the_code() -> None:
    text = page(PREAMBLE, OTHER_ENDPOINTS)
    assert PAGE.read_text() == text, "run: python -m gateway.dialects.documentation > docs/other-apis.md"


@pytest.mark.parametrize("request_model", OTHER_ENDPOINTS.values())
def test_every_field_has_one_behaviour_and_a_description(request_model: type[RequestBody]) -> None:
    assert not request_model.not_offered.keys() & request_model.model_fields.keys()
    assert [row.field for row in rows(request_model) if not row.meaning] == []
