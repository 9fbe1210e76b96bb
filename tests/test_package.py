"""The package as it would be published: what is in its files, and what it does without extras."""

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from support import tiny_prune
from transformable.extras import EXTRAS

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "transformable"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NAME = f"transformable-{PROJECT['version']}"

DATA = {
    "py.typed",
    "costing/published.json",
    "data/digits.LICENSE.txt",
    "data/digits.npz",
    "networks/model_card.txt",
    "report/script.js",
    "report/style.css",
    "reproducing/paper.json",
}
"""All that is no module and no template."""

BUILD = """
import sys
from setuptools import build_meta
print(getattr(build_meta, sys.argv[1])(sys.argv[2]))
"""


def package_files() -> set[str]:
    modules = {*PACKAGE.rglob("*.py"), *(PACKAGE / "report" / "templates").iterdir()}
    names = DATA | {str(path.relative_to(PACKAGE)) for path in modules}
    return {f"transformable/{name}" for name in names}


def build(what: str, source: Path, out: Path) -> Path:
    """What pip and other builders call, without the environment that they would download."""
    run = subprocess.run(
        [sys.executable, "-c", BUILD, f"build_{what}", str(out)],
        cwd=source,
        capture_output=True,
        text=True,
        check=True,
    )
    return out / run.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # from a copy of all that is in the repository: building leaves files in the source
    folder = tmp_path_factory.mktemp("source")
    (folder / "copy").mkdir()
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy(path, folder / "copy")
    for name in ("src", "tests", "docs", "examples", "benchmarks"):
        unwanted = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(ROOT / name, folder / "copy" / name, ignore=unwanted)
    return build("sdist", folder / "copy", folder)


def test_the_source_holds_the_package_and_its_papers(sdist: Path) -> None:
    assert sdist.name == f"{NAME}.tar.gz"
    with tarfile.open(sdist) as archive:
        names = {member.name.removeprefix(f"{NAME}/") for member in archive if member.isfile()}
    made = {name for name in names if ".egg-info/" in name} | {"PKG-INFO", "setup.cfg"}
    papers = {"CHANGELOG.md", "CITATION.cff", "LICENSE", "MANIFEST.in", "README.md"}
    wanted = {f"src/{name}" for name in package_files()} | papers | {"pyproject.toml"}
    assert names - made == wanted


def test_the_wheel_of_the_source_holds_the_package(sdist: Path, tmp_path: Path) -> None:
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    wheel = build("wheel", tmp_path / NAME, tmp_path)
    assert wheel.name == f"{NAME}-py3-none-any.whl"
    about = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "top_level.txt"}
    licences = {"LICENSE", "src/transformable/data/digits.LICENSE.txt"}
    made = about | {f"licenses/{name}" for name in licences}
    with zipfile.ZipFile(wheel) as archive:
        assert set(archive.namelist()) == package_files() | {
            f"{NAME}.dist-info/{name}" for name in made
        }
        for name in package_files():
            assert archive.read(name) == (PACKAGE.parent / name).read_bytes()
        metadata = archive.read(f"{NAME}.dist-info/METADATA").decode()
    assert f"\nVersion: {PROJECT['version']}\n" in metadata
    without = re.findall(r"^Requires-Dist: ([\w-]+)[^;\n]*$", metadata, flags=re.MULTILINE)
    assert without == [re.split("[<>=]", each)[0] for each in PROJECT["dependencies"]]


def test_the_citation_has_the_version_and_the_changelog_begins_with_it() -> None:
    version = PROJECT["version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    found = re.search(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert found is not None
    assert found[1] == version


def test_the_extras_are_those_of_the_project() -> None:
    modules = {"scikit-learn": "sklearn", "torch-pruning": "torch_pruning"}
    for_users = dict(PROJECT["optional-dependencies"])
    for for_developers in ("dev", "docs"):
        del for_users[for_developers]
    names = {extra: [need.split(">=")[0] for need in needs] for extra, needs in for_users.items()}
    assert {extra: {modules.get(name, name) for name in names[extra]} for extra in names} == {
        extra: set(parts) for extra, (_, parts) in EXTRAS.items()
    }


WITHOUT_EXTRAS = """
import sys
for name in sys.argv.pop(1).split(","):
    sys.modules[name] = None  # what is None there cannot be imported or found
from transformable.cli import main
sys.exit(main())
"""


def test_without_extras_a_network_is_pruned_and_a_line_says_what_they_would_add(
    tmp_path: Path,
) -> None:
    absent = [name for _, modules in EXTRAS.values() for name in modules] + ["matplotlib"]
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRAS, ",".join(absent), *tiny_prune.OPTIONS, "--out=run"],
        cwd=tiny_prune.prepare(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert " ".join(run.stdout.split()).endswith(
        "report: run/report.html not installed: ONNX files and times in onnxruntime (export), the "
        "methods cp and torch-pruning (methods), sweeps that machines share (sweep), curves in "
        "TensorBoard (tensorboard); "
        "pip install 'transformable[export,methods,sweep,tensorboard]' adds them"
    )
    exported = {path.name for path in (tmp_path / "run" / "export").iterdir()}
    assert {"model.safetensors", "model.pt2"} <= exported
    assert "model.onnx" not in exported
    assert list((tmp_path / "run").rglob("events.out.*")) == []
