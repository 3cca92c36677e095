"""What turns a commit into a release: workflows name what exists, the wheel is the same twice, sites lie by version."""

import io
import json
import re
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

import troth

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
sys.path.insert(0, str(ROOT / "scripts" / "release"))

import lowest_versions  # noqa: E402
import publish_docs  # noqa: E402
import release  # noqa: E402


def steps(path):
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_name_targets_and_scripts_that_exist(path):
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    commands = "\n".join(step.get("run", "") for step in steps(path))
    assert set(re.findall(r"\bmake ([\w-]+)", commands)) <= targets
    for script in re.findall(r"\bpython (\S+\.py)", commands):
        assert (ROOT / script).is_file()
    assert all("run" in step or "@" in step["uses"] for step in steps(path))


def test_templates_and_hooks_can_be_read():
    for path in [*ROOT.glob(".github/ISSUE_TEMPLATE/*.yml"), ROOT / ".pre-commit-config.yaml", ROOT / "CITATION.cff"]:
        assert yaml.safe_load(path.read_text(encoding="utf-8")), path.name
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == troth.__version__


def test_only_publishing_may_write_a_token():
    for path in WORKFLOWS:
        workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert "permissions" in workflow, path.name
        asking = [name for name, job in workflow["jobs"].items() if "id-token" in job.get("permissions", {})]
        assert asking == (["publish"] if path.stem == "release" else [])


def archive(*names):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as files:
        for name in names:
            for path in sorted((ROOT / name).rglob("*")) if (ROOT / name).is_dir() else [ROOT / name]:
                if path.is_file() and "__pycache__" not in path.parts and ".egg-info" not in str(path):
                    files.add(path, path.relative_to(ROOT))
    return packed.getvalue()


@pytest.mark.full
def test_built_twice_the_wheel_and_the_source_are_the_same(tmp_path):
    source = archive("src", "pyproject.toml", "README.md", "LICENSE")
    first = release.build(tmp_path / "first", source, 1_700_000_000)
    second = release.build(tmp_path / "second", source, 1_700_000_000)
    assert first == second
    assert sorted(Path(name).suffix for name in first) == [".gz", ".whl"]


def test_a_source_archive_is_the_same_whoever_packs_it(tmp_path):
    for name, owner in (("a.tar.gz", 1), ("b.tar.gz", 2)):
        with tarfile.open(tmp_path / name, "w:gz") as files:
            for member in ("x/1", "x/2")[:: 1 if owner == 1 else -1]:
                info = tarfile.TarInfo(member)
                info.uid, info.mtime, info.size, info.mode = owner, owner, 3, 0o600 + owner
                files.addfile(info, io.BytesIO(member.encode()))
        release.normalize(tmp_path / name, 5)
    assert (tmp_path / "a.tar.gz").read_bytes() == (tmp_path / "b.tar.gz").read_bytes()
    with tarfile.open(tmp_path / "a.tar.gz") as files:
        assert [files.extractfile(member).read() for member in files.getmembers()] == [b"x/1", b"x/2"]


def test_sites_lie_by_version_and_latest_is_the_newest_release(tmp_path):
    site = tmp_path / "site"
    site.mkdir()
    for version in ("v0.9.0", "dev", "v0.10.0", "v0.2.0"):
        (site / "index.html").write_text(version)
        publish_docs.publish(site, tmp_path / "pages", version)
    listed = json.loads((tmp_path / "pages" / "versions.json").read_text())
    assert [one["version"] for one in listed] == ["dev", "0.10.0", "0.9.0", "0.2.0"]
    assert [one["aliases"] for one in listed] == [[], ["latest"], [], []]
    assert "../0.10.0/" in (tmp_path / "pages" / "latest" / "index.html").read_text()
    assert (tmp_path / "pages" / "0.9.0" / "index.html").read_text() == "v0.9.0"


def test_the_lowest_versions_are_those_of_the_ranges():
    found = dict(line.split("==") for line in lowest_versions.lowest())
    assert found["torch"] == "2.11"
    assert found["numpy"] == "2"
    assert {"datasets", "matplotlib", "duckdb", "ray", "peft"} <= set(found)
    assert len(found) == len(set(found)) >= 20
