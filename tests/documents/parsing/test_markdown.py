"""Markdown files: CommonMark with tables."""

from __future__ import annotations

import io

from documents.content import Block, Document
from documents.parsing.reader import read_document
from documents.parsing.scans import Scans

FILE = """---
title: "Atlas płazów"
tags: [a]
---
# Żaby

Żaba *zielona* skacze
przez [rów](https://example.org) i `kod`. ![rysunek](a.png)

Rzekotki
--------

- a
  1. b
  2. c
- d

| nazwa | ile |
|-------|-----|
| żaba  | 3   |

> cytat

```python
x = 1
```

<div><p>html</p></div>
"""


def test_a_file() -> None:
    assert read_document(io.BytesIO(FILE.encode()), "a.md", Scans(None, 0.0)) == Document(
        (
            Block("heading", "Żaby", level=1),
            Block("paragraph", "Żaba zielona skacze przez rów i kod. rysunek"),
            Block("heading", "Rzekotki", level=2),
            Block("list", "- a\n  1. b\n  2. c\n- d"),
            Block("table", "| nazwa | ile |\n| --- | --- |\n| żaba | 3 |"),
            Block("paragraph", "cytat"),
            Block("code", "x = 1"),
            Block("paragraph", "html"),
        ),
        title="Atlas płazów",
    )
