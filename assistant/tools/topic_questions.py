"""Finds the topic of an English or Polish question for the Wikipedia tool, without a model."""

from __future__ import annotations

import re

from assistant.tools import topic_phrases as phrases

MAX_QUESTION = 500
MAX_WORDS = 10
MAX_FRAMES = 8
"""Phrases of politeness or request before a question that are left out."""

_SENTENCE_END = re.compile(r"(?<=\w{3})[.!?…]+\s+(?=\w)|(?<=\w{3}):\s+(?=\w)")


def topic_arguments(question: str) -> dict[str, str] | None:
    """Return the Wikipedia tool's arguments for a question, a topic without the words that ask; `None` without one."""
    text = _asking_sentence(" ".join(question[:MAX_QUESTION].split()))
    text = phrases.WIKIPEDIA.sub(" ", text)
    asked = _bare(phrases.SECOND_CLAUSE.sub("", _bare(text)))
    text = _topic(asked)
    if text != phrases.INITIAL_ARTICLE.sub("", asked):
        text = phrases.AFTERTHOUGHT.sub("", text)
    words = _bare(phrases.TRAILING.sub("", text)).split()[:MAX_WORDS]
    if all(word.lower().strip(",.") in phrases.EMPTY for word in words):
        return None
    return {"topic": " ".join(words)}


def _asking_sentence(text: str) -> str:
    """Return the last sentence of a text that is a question or a request, or else the whole text."""
    asking = [each for each in _SENTENCE_END.split(text) if _asks(_bare(each))]
    return asking[-1] if asking else text


def _asks(sentence: str) -> bool:
    text = _without_frames(sentence)
    return text != sentence or phrases.QUESTION_WORD.match(text) is not None


def _topic(text: str) -> str:
    """Return the topic of a sentence, whose phrases of request are left out, by the kind of its question."""
    inside = _without_frames(text)
    if inside == text:
        inside = phrases.INITIAL_ARTICLE.sub("", inside)
    inside = phrases.ARTICLE.sub("", inside)
    for order in phrases.INVERTED:
        if (found := order.match(inside)) is not None:
            return phrases.ARTICLE.sub("", found["topic"])
    for definition in phrases.DEFINITIONS:
        if (found := definition.match(inside)) is not None:
            return phrases.ARTICLE.sub("", inside[found.end() :])
    for adverbial in phrases.ADVERBIALS:
        if (found := adverbial.match(inside)) is not None:
            return _subject(phrases.ARTICLE.sub("", inside[found.end() :]))
    return inside


def _without_frames(text: str) -> str:
    for _ in range(MAX_FRAMES):
        shorter = _bare(phrases.FRAME.sub("", text, count=1))
        if shorter == text:
            break
        text = shorter
    return text


def _subject(text: str) -> str:
    """Return the subject of a clause: what is before its verb, or else its name ("the Berlin Wall crumble")."""
    name, verb = phrases.NAME.search(text), phrases.VERB.search(text)
    if name is not None and phrases.BEFORE_NAME.match(text):
        return name[0]
    if verb is not None and (name is None or name.end() <= verb.start()):
        return text[: verb.start()]
    return text if name is None else text[: name.end()]


def _bare(text: str) -> str:
    return " ".join(text.split()).strip(" ?!.…\"'„”“«»,:;")
