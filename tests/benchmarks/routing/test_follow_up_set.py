"""The labelled follow-ups, and the score of rewriters on them."""

from __future__ import annotations

from benchmarks.routing.follow_up_set import FollowUp, read_follow_ups, score


def test_there_are_both_kinds_in_both_languages() -> None:
    found = read_follow_ups()
    assert len(found) >= 80
    for lang in ("en", "pl"):
        assert sum(each.lang == lang and not each.standalone for each in found) >= 20
        assert sum(each.lang == lang and each.standalone for each in found) >= 20


def test_entities_are_in_the_conversation_or_the_question() -> None:
    from assistant.routing.normal_form import plain

    for each in read_follow_ups():
        said = plain(" ".join([each.text, *(turn.text for turn in each.turns)]))
        assert each.standalone or each.entity in said


def test_scores() -> None:
    lacking = FollowUp(lang="pl", text="a jutro?", standalone=False, entity="Kraków", accept=["Krak"], history=[])
    alone = FollowUp(lang="pl", text="ile to 2 + 2?", standalone=True, entity="", accept=[], history=[])
    total = score([(lacking, "W Krakowie jutro?"), (lacking, "a jutro?"), (alone, "ile to 2 + 2?"), (alone, "ile?")])
    assert (total.entity_share, total.changed_share) == (0.5, 0.5)
    assert score([]).entity_share == 0
