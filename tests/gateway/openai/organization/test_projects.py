"""Request models of projects."""

from __future__ import annotations

import pytest

from gateway.errors import InvalidRequest, UnsupportedParameter
from gateway.openai.organization.projects import ProjectCreate, ProjectQuery, ProjectUpdate


def test_a_project_needs_a_name() -> None:
    assert ProjectCreate.parse({"name": "x"}).name == "x"
    assert ProjectUpdate.parse({}).name is None
    with pytest.raises(InvalidRequest):
        ProjectCreate.parse({})


def test_fields_that_are_not_supported_are_refused() -> None:
    for body in (ProjectCreate, ProjectUpdate):
        with pytest.raises(UnsupportedParameter):
            body.parse({"name": "x", "residency": "eu"})


def test_archived_projects_are_listed_on_request() -> None:
    assert not ProjectQuery.parse_query([]).include_archived
    assert ProjectQuery.parse_query([("include_archived", "true")]).include_archived
