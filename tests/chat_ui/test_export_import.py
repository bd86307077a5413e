"""Export and import of conversations; exported cells are never spreadsheet formulas (H91)."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import AsyncIterator
from typing import Any

import openpyxl
import pytest

from chat_ui.importing.parsed_conversation import seconds
from tests.chat_ui.chat_clients import Person, Scene

HOSTILE = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", '=HYPERLINK("http://evil","x")', "=cmd|'/c calc'!A0", "＝1+1"]


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    scene = Scene()
    yield scene
    await scene.close()


async def exported(person: Person, form: str, ids: str = "all") -> bytes:
    response = await person.browser.get(f"/export?format={form}&ids={ids}")
    assert response.status_code == 200, response.text
    assert response.headers["content-disposition"].startswith('attachment; filename="conversations-')
    return response.content


async def hostile(scene: Scene) -> tuple[Person, list[str]]:
    """Return a user whose titles, prompts, questions, files and answers are attack payloads."""
    person = await scene.person()
    ids = []
    for payload in HOSTILE:
        scene.engine.words = [payload]
        ids.append(await person.conversation(system=payload, temperature=0.5, max_tokens=7))
        await person.answered(ids[-1], payload, attachments=[{"name": payload, "text": "x"}])
        await person.call("PATCH", f"/conversations/{ids[-1]}", {"title": payload})
    return person, ids


async def test_spreadsheets_have_no_formulas(scene: Scene) -> None:
    person, _ = await hostile(scene)
    sheet = openpyxl.load_workbook(io.BytesIO(await exported(person, "xlsx"))).active
    assert sheet is not None
    heads, *rows = list(sheet.iter_rows())
    names = [str(cell.value) for cell in heads]
    assert len(rows) == 2 * len(HOSTILE)
    for row in rows:
        cells = dict(zip(names, row, strict=False))
        assert all(cell.data_type != "f" and cell.hyperlink is None for cell in row)
        assert (cells["time"].data_type, cells["text"].data_type) == ("d", "s")
        if cells["role"].value == "assistant":
            assert (cells["temperature"].value, cells["max_tokens"].value) == (0.5, 7)
            assert (cells["prompt_tokens"].value, cells["completion_tokens"].value) == (5, 1)
            assert cells["cost_usd"].value == pytest.approx(11e-9)
    texts = [row[names.index("text")].value for row in rows if row[names.index("role")].value == "user"]
    assert sorted(map(str, texts)) == sorted(HOSTILE)


async def test_csv_cells_do_not_begin_like_formulas(scene: Scene) -> None:
    person, _ = await hostile(scene)
    rows = list(csv.DictReader(io.StringIO((await exported(person, "csv")).decode())))
    assert len(rows) == 2 * len(HOSTILE)
    for row in rows:
        for name, value in row.items():
            if name not in ("cost_usd", "seconds", "temperature"):
                assert not value.lstrip(" ").startswith(tuple("=+-@\t＝")), (name, value)
    assert {row["text"] for row in rows} == {"'" + each for each in HOSTILE}


async def test_long_texts_continue_in_further_cells(scene: Scene) -> None:
    scene.engine.words = ["🐢" * 40_000]
    person = await scene.person()
    await person.answered(await person.conversation())
    sheet = openpyxl.load_workbook(io.BytesIO(await exported(person, "xlsx"))).active
    assert sheet is not None
    heads, _, answer = sheet.iter_rows(values_only=True)
    column = heads.index("text")
    continued = heads.index("text_continued")
    assert "".join(map(str, [answer[column], *(each for each in answer[continued:] if each)])) == "🐢" * 40_000


async def test_one_some_or_all_conversations_are_exported(scene: Scene) -> None:
    person, ids = await hostile(scene)
    await person.call("PATCH", f"/conversations/{ids[0]}", {"archived": True})
    for chosen, number in ((ids[0], 1), (f"{ids[0]},{ids[2]},{ids[0]}", 2), ("all", len(ids))):
        document = json.loads(await exported(person, "json", chosen))
        assert len(document["conversations"]) == number
    await person.call("GET", "/export?format=exe", status=400)
    await person.call("GET", "/export?format=csv&ids=conv-none", status=404)


async def test_markdown_has_the_selected_branch(scene: Scene) -> None:
    person = await scene.person()
    conversation = await person.conversation()
    await person.answered(conversation, "Not shown")
    await person.answered(conversation, "Shown")
    await person.call("PATCH", f"/conversations/{conversation}", {"title": "Two\nlines"})
    text = (await exported(person, "markdown")).decode()
    assert text.startswith("# Two lines\n")
    assert "Shown" in text
    assert "Hello you." in text
    assert "Not shown" not in text


async def test_an_export_can_be_imported(scene: Scene) -> None:
    ada, eve = await scene.person(name="ada"), await scene.person(name="eve")
    conversation = await ada.conversation(system="Be kind.")
    first = await ada.answered(conversation, "One")
    await ada.answered(conversation, "Two", first["id"])
    await ada.answered(conversation, "Other", first["id"])
    document = json.loads(await exported(ada, "json"))
    outcome = await eve.imported(document)
    assert (outcome["state"], outcome["imported"], outcome["skipped"]) == ("done", 1, [])
    listed = (await eve.call("GET", "/conversations?q=other"))["conversations"]
    theirs, ours = await eve.tree(listed[0]["id"]), await ada.tree(conversation)
    assert [each["text"] for each in theirs["messages"]] == [each["text"] for each in ours["messages"]]
    assert {each["id"] for each in theirs["messages"]}.isdisjoint(each["id"] for each in ours["messages"])
    assert (theirs["title"], theirs["settings"]["system"]) == ("A title", "Be kind.")
    shown = {each["id"]: each for each in theirs["messages"]}
    assert shown[shown[theirs["leaf"]]["parent"]]["text"] == "Other"
    assert await eve.answered(theirs["id"], "More", theirs["leaf"])


def node(parent: str | None, role: str, *parts: Any, **more: Any) -> dict[str, Any]:
    content = {"content_type": "text", "parts": list(parts)}
    message = {"author": {"role": role}, "content": content, "create_time": 1_700_000_000.5, **more}
    return {"parent": parent, "children": [], "message": message}


CHATGPT: list[Any] = [
    {
        "title": "Ships",
        "create_time": 1_700_000_000.0,
        "update_time": 1_700_000_100.0,
        "current_node": "a2",
        "is_archived": True,
        "mapping": {
            "root": {"parent": None, "message": None},
            "s": node("root", "system", ""),
            "q": node("s", "user", "What floats?"),
            "t": node("q", "assistant", "search('ships')", recipient="browser"),
            "r": node("t", "tool", "results"),
            "a": node("r", "assistant", "Ships ", {"content_type": "image_asset_pointer"}),
            "a2": node("q", "assistant", "Wood.", metadata={"model_slug": "gpt-x"}),
        },
    },
    {"title": "Nothing", "mapping": {"x": {"parent": "x", "message": {"author": "?"}}}},
    {"title": "Circle", "mapping": {"x": node("y", "user", "a"), "y": node("x", "user", "b")}},
    7,
]


async def test_a_chatgpt_export_is_imported(scene: Scene) -> None:
    person = await scene.person()
    outcome = await person.imported(CHATGPT)
    assert outcome["imported"] == 2
    assert outcome["skipped"] == [
        {"title": "Nothing", "reason": "no_text", "limit": None},
        {"title": "", "reason": "unknown_kind", "limit": None},
    ]
    listed = (await person.call("GET", "/conversations?archived=true"))["conversations"]
    tree = await person.tree(listed[0]["id"])
    assert (tree["title"], tree["created"], tree["updated"]) == ("Ships", 1_700_000_000.0, 1_700_000_100.0)
    question, *answers = tree["messages"]
    assert (question["text"], question["parent"]) == ("What floats?", None)
    assert {each["text"] for each in answers} == {"Ships \n\n[image_asset_pointer]", "Wood."}
    assert {each["parent"] for each in answers} == {question["id"]}
    shown = next(each for each in answers if each["id"] == tree["leaf"])
    assert (shown["text"], shown["model"]) == ("Wood.", "gpt-x")


async def test_an_open_webui_export_is_imported(scene: Scene) -> None:
    messages = {
        "q": {"id": "q", "parentId": None, "role": "user", "content": "Hi", "timestamp": 1_700_000_000},
        "a": {"id": "a", "parentId": "q", "role": "assistant", "content": "Hello", "model": "llama"},
        "x": {"id": "x", "parentId": "q", "role": "system", "content": "no"},
    }
    chat = {"title": "Greeting", "system": "Be kind.", "history": {"currentId": "a", "messages": messages}}
    row = {"title": "Greeting", "created_at": 1_700_000_000, "updated_at": 1_700_000_050_000, "pinned": True}
    person = await scene.person()
    outcome = await person.imported([{**row, "chat": chat}, {"chat": {"history": {"messages": []}}}])
    assert (outcome["imported"], len(outcome["skipped"])) == (1, 1)
    listed = (await person.call("GET", "/conversations"))["conversations"][0]
    assert (listed["pinned"], listed["updated"]) == (True, 1_700_000_050.0)
    tree = await person.tree(listed["id"])
    assert [(each["role"], each["text"], each["model"]) for each in tree["messages"]] == [
        ("user", "Hi", None),
        ("assistant", "Hello", "llama"),
    ]
    assert tree["settings"]["system"] == "Be kind."


@pytest.mark.parametrize("value", [{}, [], [1], "x", {"mapping": 3}, {"conversations": {}}, None])
async def test_other_files_are_refused(scene: Scene, value: Any) -> None:
    person = await scene.person()
    refused = await person.call("POST", "/import", json.dumps(value).encode(), status=400)
    assert refused["error"]["code"] == "invalid_value"


@pytest.mark.parametrize(
    ("told", "meant"),
    [(1.7e9, 1.7e9), (1.7e12, 1.7e9), (1.7e18, 1.7e9), (-1, None), (True, None), ("1", None), (float("inf"), None)],
)
def test_times_are_read_in_any_unit(told: Any, meant: float | None) -> None:
    assert seconds(told) == meant
