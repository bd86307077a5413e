"""The mathematics tool of the assistant, `math`: checks a call's arguments, computes, and phrases the result."""

from __future__ import annotations

from typing import Any

from assistant.tools.mathematics import sentences
from assistant.tools.mathematics.order import Computed, Operation, Order
from assistant.tools.mathematics.process import Calculator
from assistant.tools.mathematics.question import arguments_of, asks_to_calculate
from assistant.tools.tool import InvalidArguments, ToolContext
from runtime.mathematics.tokens import MAX_CHARACTERS

_SHORT = {"type": "string", "maxLength": 100}
_MAX_TEXT = 2_000
"""Characters of a result that a model reads."""


class Mathematics:
    """Evaluates, simplifies, solves, differentiates, integrates and plots expressions, each in a sandboxed process.

    Close it at the end.
    """

    name = "math"
    description = (
        "Calculate exactly: arithmetic, percentages, equations, simplification, derivatives, integrals and plots of"
        " functions. Write expressions as in 2x^2 + sin(x)/3; separate equations of a system with a semicolon."
    )
    time_limit = 10.0
    cache_seconds = 3_600.0

    def __init__(self, calculator: Calculator | None = None) -> None:
        self._calculator = calculator or Calculator()
        self.parameters: dict[str, Any] = {
            "type": "object",
            "properties": {
                "operation": {"type": "string", "enum": [each.value for each in Operation]},
                "expression": {"type": "string", "maxLength": MAX_CHARACTERS},
                "variable": {**_SHORT, "description": "x if omitted and ambiguous"},
                "lower": {**_SHORT, "description": "lower limit of an integral or plot"},
                "upper": {**_SHORT, "description": "upper limit of an integral or plot"},
                "order": {"type": "integer", "minimum": 1, "maximum": 10, "description": "order of a derivative"},
            },
            "required": ["operation", "expression"],
            "additionalProperties": False,
        }

    def close(self) -> None:
        """End the sandboxed processes of computations."""
        self._calculator.close()

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> dict[str, Any]:
        """Compute the expression of `arguments` in the notation of the conversation's language, in a sandboxed process.

        Returns:
            The result, a JSON object of the type `mathematics`.

        Raises:
            ToolError: the expression can't be read, exceeds a limit, or has no result.
        """
        if not arguments["expression"].strip():
            raise InvalidArguments(sentences.NO_CALCULATION, question=context.question)
        operation = Operation(arguments["operation"])
        texts = {name: arguments.get(name, "") for name in ("variable", "lower", "upper")}
        order = Order(operation, arguments["expression"], context.language, order=arguments.get("order", 1), **texts)
        return _result(operation, await self._calculator.compute(order, context))

    def phrased(self, result: dict[str, Any]) -> str | None:
        """Return the result of a computation as the text of the answer, or what is plotted if it is a plot.

        It is code where Markdown would interpret its signs.
        """
        text = str(result["result_text"])[:_MAX_TEXT]
        return f"`{text}`" if "*" in text else text

    def for_model(self, result: dict[str, Any]) -> str:
        """Return the input, the result and its numeric value as text for the answering model."""
        lines = [
            f"Operation: {result['operation']}",
            f"Input (LaTeX): {result['input_latex']}",
            f"Result: {result['result_text']}",
        ]
        if "numeric" in result:
            lines.append(f"Numeric value: {result['numeric']:.15g}")
        if "plot" in result:
            lines.append("A plot is shown to the person.")
        return "\n".join(line[:_MAX_TEXT] for line in lines)

    def from_question(self, question: str, language: str) -> dict[str, Any] | None:
        """Return the tool's arguments for an English or Polish question; `None` if it asks for no calculation.

        The expression is empty if the question asks for a calculation that can't be read: the call then says so.
        """
        found = arguments_of(question, language)
        if found is None and asks_to_calculate(question, language):
            return {"operation": Operation.EVALUATE.value, "expression": ""}
        return found


def _result(operation: Operation, computed: Computed) -> dict[str, Any]:
    found: dict[str, Any] = {
        "type": "mathematics",
        "operation": operation.value,
        "input_latex": computed.input_latex,
        "result_latex": computed.result_latex,
        "result_text": computed.result_text,
    }
    if computed.numeric is not None:
        found["numeric"] = computed.numeric
    if (plot := computed.plot) is not None:
        found["plot"] = {
            "variable": plot.variable,
            "x": plot.x,
            "y": plot.y,
            "x_label": plot.x_label,
            "y_label": plot.y_label,
        }
    return found
