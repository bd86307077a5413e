"""Options that the launchers have in common with the commands of single processes."""

from __future__ import annotations

from typing import Annotated

import typer

Port = Annotated[int | None, typer.Option("--port", help="Port of the API and the chat (8000).", show_default=False)]
Model = Annotated[
    str | None,
    typer.Option("--model", help="A Hugging Face id, a folder with safetensors, or a .gguf.", show_default=False),
]
Device = Annotated[str | None, typer.Option("--device", help="cpu, cuda or cuda:N (cpu).", show_default=False)]
Aliases = Annotated[
    str | None, typer.Option("--model-aliases", help="TOML file of other names for models.", show_default=False)
]
