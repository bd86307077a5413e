"""The catalogue file: errors are one line, and neither the file nor an error contains a secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from proxy.catalogue import api_keys, read
from runtime.lifecycle import StartupError

GOOD = """
[upstreams.a]
base_url = "https://a.example/v1/"
api_key_env = "A_KEY"
[models."org/m:1"]
max_model_len = 100
routes = [{ upstream = "a" }]
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "proxy.toml"
    path.write_text(text)
    return path


def test_a_valid_file(tmp_path: Path) -> None:
    catalogue = read(write(tmp_path, GOOD))
    assert catalogue.upstreams["a"].base_url == "https://a.example/v1"
    model = catalogue.models["org/m:1"]
    assert (model.concurrency, model.overflow, model.routes[0].model) == (16, False, None)
    keys = api_keys(catalogue, {"A_KEY": " secret\n"})
    assert keys["a"].get_secret_value() == "secret"
    assert "secret" not in str(keys)


def test_the_files_in_the_container_and_the_documentation_are_valid(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    read(root / "infra/containers/proxy.toml")
    shown = (root / "docs/providers.md").read_text().split("```toml\n")[1].split("```")[0]
    assert set(read(write(tmp_path, shown)).models) == {
        "gpt-4o-mini",
        "text-embedding-3-small",
        "gpt-image-1",
        "smollm2-135m-instruct",
    }


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("max_model_len", "max_model_length", "models.org/m:1.max_model_len: Field required"),
        ("max_model_len = 100", "max_model_len = 100\ncost = 1", "cost: Extra inputs are not permitted"),
        ("= 100", '= 100\nprice = { input = "-1", output = "1" }', "models.org/m:1.price.input: "),
        ("= 100", '= 100\nprice = { input = "0.0001", output = "1" }', "no whole number of nano-USD"),
        ("max_model_len = 100", "max_model_len = 0", "max_model_len"),
        ("https://a", "ftp://a", "base_url"),
        ("https://a", "https://user:pass@a", "base_url"),
        ("/v1/", "/v1?key=x", "base_url"),
        ('upstream = "a"', 'upstream = "b"', "'b', which is not in [upstreams]"),
        ('[{ upstream = "a" }]', "[]", "routes"),
        ("org/m:1", "m*", "only letters"),
        ("[upstreams.a]", "[upstreams.a", "not TOML"),
        ("A_KEY", "sk-1234", "api_key_env"),
    ],
)
def test_an_invalid_file_is_an_error_of_one_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(StartupError) as error:
        read(write(tmp_path, GOOD.replace(old, new)))
    assert message in str(error.value)
    assert "\n" not in str(error.value).strip() or "only letters" in message


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match="No such file"):
        read(tmp_path / "none.toml")


@pytest.mark.parametrize("key", [None, "", "  ", "a\nb", "schlüssel"])
def test_an_invalid_key_is_an_error_that_does_not_contain_it(tmp_path: Path, key: str | None) -> None:
    with pytest.raises(StartupError) as error:
        api_keys(read(write(tmp_path, GOOD)), {} if key is None else {"A_KEY": key})
    assert "A_KEY" in str(error.value)
    assert not key or key not in str(error.value) or not key.strip()


@pytest.mark.parametrize(
    ("fields", "accepted"),
    [
        ('task = "image"\nimage_sizes = ["512x512", "512x256"]', True),
        ('task = "image"', False),
        ('task = "image"\nimage_sizes = []', False),
        ('task = "image"\nimage_sizes = ["large"]', False),
        ('image_sizes = ["512x512"]', False),
    ],
)
def test_image_models_and_no_others_have_sizes(tmp_path: Path, fields: str, accepted: bool) -> None:
    text = f"""
        [upstreams.u]
        base_url = "http://u/v1"
        [models.m]
        max_model_len = 100
        {fields}
        routes = [{{ upstream = "u" }}]
    """
    if accepted:
        assert read(write(tmp_path, text)).models["m"].image_sizes == ["512x512", "512x256"]
    else:
        with pytest.raises(StartupError, match="image_sizes"):
            read(write(tmp_path, text))


def test_scores_of_upstreams_are_not_served(tmp_path: Path) -> None:
    text = """
        [upstreams.u]
        base_url = "http://u/v1"
        [models.m]
        max_model_len = 100
        task = "score"
        routes = [{ upstream = "u" }]
    """
    with pytest.raises(StartupError, match="not served by upstreams"):
        read(write(tmp_path, text))
