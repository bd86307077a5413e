"""Prints the start-up banner of the launchers: URLs, API key, and a `curl` command to try."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape

from inference_worker.model_files.model_source import resolve
from infra.accounts.sign_in_services import invitation_link, start_link
from infra.home.credentials import password_file
from infra.launcher.processes import PlatformProcesses
from infra.rabbitmq import definitions


def _show(title: str, lines: list[tuple[str, str]], try_it: str) -> None:
    """Print the banner, without a box: a key that a narrow terminal wraps could not be copied."""
    console = Console(highlight=False)
    console.rule(f"[bold green]{title}", align="left", style="green")
    for name, value in lines:
        console.print(f"[bold]{name:<12}[/bold] {escape(value)}", soft_wrap=True)
    console.print(escape(f"\n{try_it}\n"), soft_wrap=True)


def curl(url: str, key: str, model: str) -> str:
    """Return a `curl` command line that streams a chat answer of `model` from the API at `url`, with this API key."""
    return (
        f'Try it:  curl -N {url}/v1/chat/completions -H "Authorization: Bearer {key}" '
        f'-H "Content-Type: application/json" '
        f'-d \'{{"model": "{model}", "stream": true, "messages": [{{"role": "user", "content": "Hello!"}}]}}\''
    )


def _chat(url: str, token: str) -> list[tuple[str, str]]:
    """Return the chat's URL; until an owner can sign in, a link that signs the owner in by one click."""
    if not token:
        return [("Chat", f"{url}/")]
    return [
        ("Chat", start_link(url, token)),
        (
            "",
            "signs you in as owner, once; each start prints a new link until an owner signs up (docs/people.md) at:",
        ),
        ("", invitation_link(url, token)),
    ]


def print_serve_banner(url: str, key: str, model: str, *, home: str, token: str) -> None:
    """Print the start-up banner of `headrace serve`. `token` invites the first owner; empty if an owner exists."""
    lines = [("API", f"{url}/v1"), *_chat(url, token), ("API key", key), ("Model", model)]
    lines.append(("For clients", f"{home}/client.env"))
    _show("Headrace", lines, f"{curl(url, key, model)}\nCtrl-C stops all processes.")


def print_platform_banner(processes: PlatformProcesses, running: list[str], key: str, token: str) -> None:
    """Print the start-up banner of `headrace up`. `token` invites the first owner; empty if an owner exists."""
    url = processes.settings.url
    model = resolve(processes.settings.model_or_default).served_name
    lines = [
        ("API", f"{url}/v1"),
        *_chat(url, token),
        ("API key", key),
        ("Model", model),
        ("Console", f"{processes.console_url} (RabbitMQ)"),
        ("", f"user {definitions.ADMIN}, password in {password_file(processes.home, definitions.ADMIN)}"),
        ("Processes", ", ".join(running)),
        ("", "`headrace ps` shows them, `headrace up --workers N` scales, Ctrl-C stops"),
    ]
    _show("Headrace platform", lines, curl(url, key, model))
