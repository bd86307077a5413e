"""`docs/configuration.md` says what the settings classes say, both ways.

`python -m tests.infra.test_configuration_docs` prints the table as it should stand.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo

from infra.cli.main import settings_classes
from infra.home.environment import variable

PAGE = Path(__file__).resolve().parents[2] / "docs" / "configuration.md"


def default(field: FieldInfo) -> str:
    if field.is_required():
        return "(required)"
    value: Any = field.default
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def tables() -> list[str]:
    """One table a process: name, default, meaning."""
    lines = []
    for settings in settings_classes():
        lines += [f"### {settings.__name__.removesuffix('Settings')}", ""]
        lines += ["| variable | default | meaning |", "|---|---|---|"]
        for name, field in sorted(settings.model_fields.items()):
            meaning = (field.description or "").rstrip(".").replace("|", r"\|")
            lines.append(f"| `{variable(name)}` | {default(field)} | {meaning} |")
        lines.append("")
    return lines


def test_every_setting_has_a_description() -> None:
    for settings in settings_classes():
        undescribed = [name for name, field in settings.model_fields.items() if not field.description]
        assert undescribed == [], settings.__name__


def test_the_page_has_every_setting_as_it_is_and_no_other() -> None:
    pattern = re.compile(r"^(### |\| `HEADRACE_)")
    written = [line for line in PAGE.read_text().splitlines() if pattern.match(line)]
    expected = [line for line in tables() if pattern.match(line)]
    assert written == expected, "the tables in docs/configuration.md are not what the settings classes say"


if __name__ == "__main__":
    print("\n".join(tables()))
