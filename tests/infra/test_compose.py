"""`docker-compose.yml` against the Compose specification's schema, and against what this repository has."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import typer.main
import yaml

from infra.cli.main import app, known_variables, settings_classes
from infra.home.environment import variable
from infra.install.environment_file import fill_in
from infra.rabbitmq.definitions import permissions

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = Path(__file__).parent / "compose_specification" / "compose-spec.json"
OURS = {"gateway", "worker", "worker-cuda", "proxy", "assistant", "billing"}
DEFINITIONS = "rabbitmq-definitions"
COMMANDS = {*OURS, DEFINITIONS}


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "docker-compose.yml").read_text())


def targets() -> set[str]:
    return set(re.findall(r"^FROM .* AS (\S+)$", (ROOT / "infra/containers/Dockerfile").read_text(), re.MULTILINE))


def test_it_is_a_compose_file(compose: dict[str, Any]) -> None:
    schema = json.loads(SCHEMA.read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    jsonschema.Draft7Validator(schema).validate(compose)


def test_the_schema_sees_a_mistake(compose: dict[str, Any]) -> None:
    broken = {**compose, "services": {"gateway": {"image": "x", "prots": []}}}
    assert not jsonschema.Draft7Validator(json.loads(SCHEMA.read_text())).is_valid(broken)


def test_our_images_run_commands_that_exist(compose: dict[str, Any]) -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for name in COMMANDS:
        verb, *options = compose["services"][name]["command"]
        known = {spelling for parameter in commands[verb].params for spelling in parameter.opts}
        assert {option for option in options if option.startswith("--")} <= known, name


def test_our_settings_exist(compose: dict[str, Any]) -> None:
    for name in COMMANDS:
        ours = {each for each in compose["services"][name]["environment"] if each.startswith("HEADRACE_")}
        assert ours <= known_variables(), name


def test_references_lead_somewhere(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert set(service.get("depends_on", {})) <= set(compose["services"]), name
        assert set(service.get("networks", [])) <= set(compose["networks"]), name
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert (ROOT / source).exists() if source.startswith(".") else source in compose["volumes"], volume
        if "build" in service:
            assert service["build"]["target"] in targets(), name


def test_every_service_has_a_health_check_and_waits_for_healthy_ones(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert name == DEFINITIONS or "test" in service["healthcheck"], name
        for needed in service.get("depends_on", {}).values():
            assert needed["condition"] == "service_healthy", name


def test_published_images_are_new_enough(compose: dict[str, Any]) -> None:
    image = {name: service["image"] for name, service in compose["services"].items()}
    assert version(image["rabbitmq"]) >= (4, 2, 10)
    assert image["rabbitmq"].endswith("-management")
    assert version(image["mongodb"]) >= (8, 0, 17)


def version(image: str) -> tuple[int, ...]:
    return tuple(int(part) for part in image.split(":")[1].split("-", maxsplit=1)[0].split("."))


def test_workers_outlive_their_drain(compose: dict[str, Any]) -> None:
    for name in OURS:
        assert compose["services"][name]["stop_grace_period"] == "150s"


def test_the_operators_settings_are_passed_on_with_their_defaults(compose: dict[str, Any]) -> None:
    fields = {variable(name): field for each in settings_classes() for name, field in each.model_fields.items()}
    document = (ROOT / "docs/containers.md").read_text()
    passed = set()
    for service in ("gateway", "billing"):
        for name, value in compose["services"][service]["environment"].items():
            given = re.fullmatch(r"\$\{(\w+):-(.*)\}", str(value))
            if given is None or name == "HEADRACE_LOG_LEVEL":
                continue
            default = fields[name].default
            written = f"{default:g}" if isinstance(default, float) else str(default)
            assert (given[1], given[2].lower()) == (name, written.lower()), name
            assert f"`{name}`" in document
            passed.add(name)
    prefixes = ("HEADRACE_LIMITS_", "HEADRACE_ALERT_", "HEADRACE_SMTP_", "HEADRACE_OIDC_")
    assert {name for name in fields if name.startswith(prefixes)} <= passed


SECRETS = {
    "HEADRACE_API_KEY_PEPPER",
    "HEADRACE_CONTROL_SECRET",
    "HEADRACE_MONGODB_ADMIN_PASSWORD",
    "HEADRACE_MONGODB_PASSWORD",
    "HEADRACE_SESSION_SIGNING_KEYS",
    *(f"HEADRACE_RABBITMQ_{user.upper()}_PASSWORD" for user in permissions()),
}


def test_no_secret_has_a_default(compose: dict[str, Any]) -> None:
    text = (ROOT / "docker-compose.yml").read_text()
    for secret in SECRETS:
        assert f"${{{secret}:?" in text
        assert f"${{{secret}:-" not in text


def test_the_environment_file_fills_in_every_required_variable() -> None:
    text = (ROOT / "docker-compose.yml").read_text()
    filled = fill_in((ROOT / ".env.example").read_text())
    values = dict(re.findall(r"^([A-Z_]+)=(.+)$", filled, re.MULTILINE))
    assert set(re.findall(r"\$\{([A-Z_]+):\?", text)) <= set(values)
    assert set(values) >= SECRETS
    secrets = [values[name].removeprefix("1:") for name in SECRETS]
    assert len(set(secrets)) == len(secrets)
    assert all(re.fullmatch(r"[\w-]{43}", secret) for secret in secrets)


def test_each_service_has_its_own_user_of_rabbitmq(compose: dict[str, Any]) -> None:
    users = {}
    for name in OURS:
        environment = compose["services"][name]["environment"]
        (users[name],) = re.findall(r"amqp://(\w+):", environment["HEADRACE_AMQP_URL"])
        others = {f"HEADRACE_RABBITMQ_{user.upper()}_PASSWORD" for user in permissions()} - {
            f"HEADRACE_RABBITMQ_{users[name].upper()}_PASSWORD"
        }
        assert not [other for other in others if other in json.dumps(environment)], name
    assert users == {**{name: name for name in OURS}, "worker": "searcher", "worker-cuda": "searcher"}


def test_both_databases_require_the_password_that_clients_have(compose: dict[str, Any]) -> None:
    mongodb, store = compose["services"]["mongodb"], compose["services"]["store"]
    assert "--keyFile" in mongodb["command"][-1]  # turns authentication on
    assert "./infra/containers/mongodb_users.js:/docker-entrypoint-initdb.d/users.js:ro" in mongodb["volumes"]
    assert "process.env.HEADRACE_MONGODB_PASSWORD" in (ROOT / "infra/containers/mongodb_users.js").read_text()
    for service in (mongodb, store):
        assert service["environment"]["HEADRACE_MONGODB_PASSWORD"].startswith("${HEADRACE_MONGODB_PASSWORD:?")
    for line in re.findall(r"^(?:# )?HEADRACE_MONGODB_URL=(.*)$", (ROOT / ".env.example").read_text(), re.MULTILINE):
        assert line.startswith("mongodb://headrace:${HEADRACE_MONGODB_PASSWORD}@"), line
    for name in ("gateway", "billing"):
        assert "MONGODB_ADMIN" not in json.dumps(compose["services"][name]["environment"]), name


def test_our_containers_are_confined(compose: dict[str, Any]) -> None:
    for name in (*COMMANDS, "store"):
        service = compose["services"][name]
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name


def test_our_images_run_as_another_user_than_root() -> None:
    stages = re.split(r"^FROM ", (ROOT / "infra/containers/Dockerfile").read_text(), flags=re.MULTILINE)
    for target in ("gateway", "billing", "worker", "proxy", "assistant", "store"):
        (stage,) = (stage for stage in stages if stage.splitlines()[0].endswith(f" AS {target}"))
        assert "\nUSER headrace\n" in stage, target


def test_a_profile_selects_the_database(compose: dict[str, Any]) -> None:
    assert compose["services"]["mongodb"]["profiles"] == ["mongodb"]
    assert compose["services"]["store"]["profiles"] == ["embedded-store"]
    for name in ("gateway", "billing"):
        assert not any(compose["services"][name]["depends_on"][store]["required"] for store in ("mongodb", "store"))


def test_prometheus_scrapes_services_that_exist(compose: dict[str, Any]) -> None:
    scraped = yaml.safe_load((ROOT / "infra/monitoring/prometheus.yml").read_text())["scrape_configs"]
    names: set[str] = set()
    for job in scraped:
        for discovery in job.get("dns_sd_configs", []):
            names |= set(discovery["names"])
        for static in job.get("static_configs", []):
            names |= {target.split(":")[0] for target in static["targets"]}
    assert names <= set(compose["services"])
    assert names >= OURS
