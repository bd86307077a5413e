"""Ids of stored records: a prefix and 24 random letters and digits."""

from __future__ import annotations

import re

from auth_billing.ids import new_id
from auth_billing.money.holds import check_id


def test_an_id_has_its_prefix_and_enough_random_characters() -> None:
    ids = {new_id("proj_") for _ in range(100)}
    assert len(ids) == 100
    assert all(re.fullmatch(r"proj_[A-Za-z0-9]{24}", id) for id in ids)


def test_an_id_can_be_part_of_a_path_in_the_store() -> None:
    assert check_id(new_id("svc_acct_"))
