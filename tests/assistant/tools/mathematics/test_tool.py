"""The tool `math` in a toolbox."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from assistant.tools.mathematics.tool import Mathematics
from assistant.tools.tool import InvalidArguments, TooLarge, ToolContext
from assistant.tools.toolbox import Toolbox

ENGLISH = ToolContext("acme", "user-1", "en")
POLISH = ToolContext("acme", "user-1", "pl-PL")


@pytest.fixture
def tool() -> Iterator[Mathematics]:
    tool = Mathematics()
    yield tool
    tool.close()


async def test_a_result(tool: Mathematics) -> None:
    arguments = tool.from_question("Ile to jest 15% z 240?", "pl")
    assert arguments is not None
    outcome = await Toolbox([tool]).run("math", arguments, POLISH)
    assert outcome.result == {
        "type": "mathematics",
        "operation": "evaluate",
        "input_latex": r"\frac{15}{100} \cdot 240",
        "result_latex": "36",
        "result_text": "36",
        "numeric": 36.0,
    }
    assert tool.phrased(outcome.result) == "36"
    assert tool.phrased({"result_text": "2*x*y"}) == "`2*x*y`", "Markdown would read the stars as emphasis"
    assert "Result: 36\nNumeric value: 36" in tool.for_model(outcome.result)


@pytest.mark.parametrize(
    ("question", "context", "message"),
    [
        (
            "Calculate the area of a circle with radius 7",
            ENGLISH,
            "No calculation can be read in “Calculate the area of",
        ),
        ("Jakie jest pole koła o promieniu 3 i 5?", POLISH, "Nie umiem odczytać działania z pytania „Jakie jest pole"),
    ],
)
async def test_a_calculation_that_cannot_be_read_is_told(
    tool: Mathematics, question: str, context: ToolContext, message: str
) -> None:
    arguments = tool.from_question(question, context.language)
    assert arguments == {"operation": "evaluate", "expression": ""}
    with pytest.raises(InvalidArguments) as raised:
        await Toolbox([tool]).run("math", arguments, replace(context, question=question))
    assert raised.value.message(context.language).startswith(message)


def test_a_question_without_a_calculation_has_no_arguments(tool: Mathematics) -> None:
    assert tool.from_question("Who was Ada Lovelace?", "en") is None


async def test_a_plot_and_the_cache(tool: Mathematics) -> None:
    toolbox = Toolbox([tool])
    arguments = {"operation": "plot", "expression": "1/x", "lower": "-1", "upper": "1"}
    first = await toolbox.run("math", arguments, ENGLISH)
    plot = first.result["plot"]
    assert len(plot["x"]) == len(plot["y"]) <= 400
    assert plot["y"][plot["x"].index(0.0)] is None
    assert "plot" in toolbox.available()[0].for_model(first.result)
    again = await toolbox.run("math", arguments, ENGLISH)
    assert again.cached
    assert again.result == first.result


async def test_the_language_decides_the_notation(tool: Mathematics) -> None:
    arguments = {"operation": "evaluate", "expression": "log 100 + 0,5"}
    assert (await Toolbox([tool]).run("math", arguments, POLISH)).result["result_text"] == "2.5"


async def test_refusals_are_in_plain_words(tool: Mathematics) -> None:
    toolbox = Toolbox([tool])
    with pytest.raises(TooLarge) as error:
        await toolbox.run("math", {"operation": "evaluate", "expression": "10**10**10"}, POLISH)
    assert error.value.message("pl") == "Liczby w tym obliczeniu byłyby zbyt duże."
    for arguments in ({"operation": "eval", "expression": "1"}, {"operation": "plot"}, {"expression": "1"}):
        with pytest.raises(InvalidArguments):
            await toolbox.run("math", arguments, POLISH)
