"""Joined deltas equal the complete output for any split: characters, stop strings, ids, log probabilities."""

from __future__ import annotations

import codecs
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from inference_worker.tokenizer.token_bytes import byte_alphabet
from inference_worker.tokenizer.tokenizer import Tokenizer
from inference_worker.worker.text.output_text import OutputText, Release
from router.messages import SamplingParams, TextOptions
from tests.fakes.counting_text import END, definition
from tests.inference_worker.worker.text.token_events import push_events

PIECES = ["stop", " st", "op", "a", "ab", "ba", "👍", "é", "\n\n", "x\u200dy"]


def tokenizer() -> Tokenizer:
    """Return a tokenizer of all single bytes, a few longer tokens, and an end-of-text token."""
    to_character = {byte: character for character, byte in byte_alphabet().items()}
    described = definition()
    vocabulary = {text: id_ for text, id_ in described["model"]["vocab"].items() if id_ <= END}
    for number, piece in enumerate(PIECES):
        vocabulary.setdefault("".join(to_character[byte] for byte in piece.encode()), 258 + number)
    described["model"]["vocab"] = vocabulary
    return Tokenizer(described)


TOKENIZER = tokenizer()
IDS = [id_ for id_ in range(TOKENIZER.vocab_size) if TOKENIZER.token_data(id_)]
text_ids = st.text("stopab \né👍", max_size=12).map(lambda text: list(text.encode()))
tokens = st.lists(st.one_of(st.sampled_from(IDS).map(lambda id_: [id_]), text_ids), max_size=12).map(
    lambda parts: [id_ for part in parts for id_ in part]
)
stop_lists = st.lists(st.text("stopab \né", min_size=1, max_size=5), max_size=3)


def run(
    ids: list[int],
    cuts: list[int],
    stops: list[str],
    *,
    include: bool = False,
    min_tokens: int = 0,
    after: int = 0,
    skip: bool = True,
) -> list[Release]:
    """Push `ids[after:]` in events of the sizes in `cuts` (repeated), the last with a finish reason."""
    sampling = SamplingParams(seed=1, logprobs=0, min_tokens=min_tokens)
    options = TextOptions(stop=stops, include_stop_str_in_output=include, skip_special_tokens=skip)
    output = OutputText(TOKENIZER, sampling, options, ids[:after])
    return push_events(output, ids, after, cuts, "length")


def joined(releases: list[Release]) -> tuple[str, list[int], str | None, str | int | None]:
    end = releases[-1] if releases else None
    ids = [id_ for release in releases for id_ in release.ids]
    return (
        "".join(release.text for release in releases),
        ids,
        None if end is None else end.finish,
        None if end is None else end.stopped_by,
    )


def whole_text(ids: list[int]) -> str:
    """Return the ids decoded at once, without an incomplete character at the end."""
    return codecs.getincrementaldecoder("utf-8")(errors="replace").decode(b"".join(map(TOKENIZER.token_data, ids)))


@given(tokens, st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_joined_text_equals_the_text_decoded_at_once(ids: list[int], cuts: list[int]) -> None:
    shown = [id_ for id_ in ids if id_ not in TOKENIZER.controls.ids]
    text, released, finish, _ = joined(run(ids, cuts, []))
    assert text == whole_text(shown)
    assert released == ids
    assert finish == ("length" if ids else None)


@settings(max_examples=300)
@given(
    tokens,
    st.lists(st.integers(1, 5), min_size=1, max_size=4),
    stop_lists,
    st.fixed_dictionaries({"include": st.booleans(), "skip": st.booleans(), "min_tokens": st.integers(0, 4)}),
)
def test_any_split_stops_at_the_same_place(
    ids: list[int], cuts: list[int], stops: list[str], options: dict[str, Any]
) -> None:
    whole, split = run(ids, [len(ids) or 1], stops, **options), run(ids, cuts, stops, **options)
    assert joined(split) == joined(whole)
    assert [lp for one in split for lp in one.logprobs or []] == [lp for one in whole for lp in one.logprobs or []]


@given(tokens, stop_lists, st.booleans())
def test_the_stop_string_completed_first_ends_the_text(ids: list[int], stops: list[str], include: bool) -> None:
    shown = [id_ for id_ in ids if id_ not in TOKENIZER.controls.ids]
    text = whole_text(shown)
    hits = [(text.find(stop) + len(stop), -len(stop), stop) for stop in stops if stop in text]
    got, _, finish, stopped_by = joined(run(ids, [1], stops, include=include))
    if not hits:
        assert (got, stopped_by) == (text, None)
        return
    end, _, stop = min(hits)
    assert (finish, stopped_by) == ("stop", stop)
    assert got == (text[:end] if include else text[: end - len(stop)])


@given(tokens, st.lists(st.integers(1, 5), min_size=1, max_size=4), stop_lists)
def test_released_text_is_that_of_its_ids_and_positions_have_no_gap(
    ids: list[int], cuts: list[int], stops: list[str]
) -> None:
    have: list[int] = []
    text = ""
    for release in run(ids, cuts, stops):
        assert release.start == len(have)
        assert [one.chosen.id for one in release.logprobs or []] == release.ids
        have += release.ids
        text += release.text
        if release.finish is None:  # so a resumed job can go on from the ids alone
            assert text == whole_text([id_ for id_ in have if id_ not in TOKENIZER.controls.ids])
        assert "\ufffd" not in text or not _is_utf8(have)


@given(tokens, stop_lists, st.data())
def test_a_resumed_choice_equals_an_uninterrupted_one(ids: list[int], stops: list[str], data: st.DataObject) -> None:
    releases = run(ids, [1], stops)
    cut = data.draw(st.integers(0, max(0, len(releases) - 1)))
    delivered = sum(len(release.ids) for release in releases[:cut])
    if delivered == len(ids):
        return
    assert joined(run(ids, [1], stops, after=delivered)) == joined(releases[cut:])


def _is_utf8(ids: list[int]) -> bool:
    try:
        b"".join(map(TOKENIZER.token_data, ids)).decode()
    except UnicodeDecodeError:
        return False
    return True
