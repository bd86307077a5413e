"""Parses this chat's own JSON export (`exporting/text_files.py`), without usage and cost: they were billed elsewhere.

Images of questions and steps are not imported either: their ids are those of blobs that another installation or person
may own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chat_ui.history.limits import MAX_TOKENS, MAX_TOOLS_OFF
from chat_ui.history.records import Attachment, ModelSettings, Role
from chat_ui.history.search_settings import SearchSettings
from chat_ui.history.steps import MAX_STEPS, Step, StepState, bounded
from chat_ui.importing.parsed_conversation import (
    MAX_NAME_CHARS,
    ParsedConversation,
    ParsedMessage,
    identifier,
    mapping,
    number,
    seconds,
    text,
)
from router.messages import MAX_PATHS, SearchMethod

_ABOVE_NOTHING = 1e-9
_ROLES = {role.value: role for role in Role}
_STATES = {state.value: state for state in (StepState.DONE, StepState.FAILED)}


def matches(value: Mapping[str, Any]) -> bool:
    """Return whether a decoded JSON object looks like a conversation of this chat's own export."""
    return isinstance(value.get("messages"), list) and "leaf" in value


def parse(value: Mapping[str, Any], now: float) -> ParsedConversation:
    """Convert a conversation of this chat's own JSON export (decoded); `now` (Unix seconds) replaces a missing time."""
    created = seconds(value.get("created")) or now
    messages = [
        ParsedMessage(
            key,
            identifier(each.get("parent")),
            _ROLES[each["role"]],
            text(each.get("text")),
            seconds(each.get("created")),
            _settings(each.get("settings")),
            _files(each.get("attachments")),
            _steps(each.get("steps")),
        )
        for each in map(mapping, value["messages"])
        if (key := identifier(each.get("id"))) is not None and text(each.get("role")) in _ROLES
    ]
    return ParsedConversation(
        title=text(value.get("title")),
        created=created,
        updated=seconds(value.get("updated")) or created,
        messages=messages,
        leaf=identifier(value.get("leaf")),
        archived=value.get("archived") is True,
        pinned=value.get("pinned") is True,
        settings=_settings(value.get("settings")),
        origin=identifier(value.get("id")),
    )


def _settings(value: Any) -> ModelSettings:
    """Return model settings; invalid values become `None`."""
    fields = mapping(value)
    max_tokens = number(fields.get("max_tokens"), 1, MAX_TOKENS)
    return ModelSettings(
        model=text(fields.get("model")),
        system=text(fields.get("system")),
        temperature=number(fields.get("temperature"), 0, 2),
        top_p=number(fields.get("top_p"), _ABOVE_NOTHING, 1),
        repetition_penalty=number(fields.get("repetition_penalty"), _ABOVE_NOTHING, 2),
        max_tokens=None if max_tokens is None else int(max_tokens),
        tools_off=tuple(_names(fields.get("tools_off")))[:MAX_TOOLS_OFF],
        test_time_compute=_search(mapping(fields.get("test_time_compute"))),
    )


def _search(fields: Mapping[str, Any]) -> SearchSettings | None:
    """Return the settings of a search; `None` if the method is unknown, or the verifier does not fit it."""
    method, verifier = text(fields.get("method")), text(fields.get("verifier"))
    n = number(fields.get("n"), 1, MAX_PATHS)
    if method not in set(SearchMethod) or SearchMethod(method).verified != (verifier != ""):
        return None
    return SearchSettings(method, None if n is None else int(n), verifier[:MAX_NAME_CHARS])


def _names(value: Any) -> list[str]:
    """Return the names in a list, cut to the length of a name."""
    return [name[:MAX_NAME_CHARS] for each in (value if isinstance(value, list) else ()) if (name := text(each))]


def _files(value: Any) -> list[Attachment]:
    """Return the files of a question, without those that have no name."""
    found = []
    for each in map(mapping, value if isinstance(value, list) else ()):
        name, content = text(each.get("name"))[:MAX_NAME_CHARS], text(each.get("text"))
        if name:
            found.append(Attachment(name, content, len(content.encode(errors="replace"))))
    return found


def _steps(value: Any) -> list[Step]:
    """Return the ended steps of an answer, within the limits, without blobs; of equal numbers the last one."""
    found: dict[int, Step] = {}
    for each in map(mapping, value if isinstance(value, list) else ()):
        at, state = number(each.get("number"), 0, MAX_TOKENS), _STATES.get(text(each.get("state")))
        kind, name = text(each.get("kind")), text(each.get("name"))
        if at is None or state is None or not kind or len(found) == MAX_STEPS:
            continue
        found[int(at)] = bounded(Step(int(at), kind, name, state, _without_blobs(mapping(each.get("data")))))
    return list(found.values())


def _without_blobs(data: Mapping[str, Any]) -> Mapping[str, Any]:
    result = data.get("result")
    if not isinstance(result, dict):
        return data
    return {**data, "result": {name: each for name, each in result.items() if name not in ("images", "thumbnail")}}
