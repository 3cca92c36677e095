"""Puts a built site into a folder of versions: python scripts/release/publish_docs.py build/site pages v0.3.0

Each version is a folder of plain files. `latest` points to the newest release; versions.json lists all, newest first,
in the form that themes of MkDocs and their successors read.
"""

import json
import re
import shutil
import sys
from pathlib import Path

REDIRECT = '<!doctype html><meta charset="utf-8"><title>troth</title><meta http-equiv="refresh" content="0; url={0}/">'


def order(version: str) -> tuple[bool, list[int]]:
    """Releases by their numbers; what is under way comes first, as the newest."""
    numbers = [int(part) for part in re.findall(r"\d+", version)]
    return not numbers, numbers


def publish(site: Path, pages: Path, name: str) -> None:
    version = name.removeprefix("v")
    shutil.rmtree(pages / version, ignore_errors=True)
    shutil.copytree(site, pages / version)
    versions = sorted(
        (page.parent.name for page in pages.glob("*/index.html") if page.parent.name != "latest"), key=order
    )
    releases = [each for each in versions if re.fullmatch(r"\d+\.\d+\.\d+", each)]
    newest = releases[-1] if releases else version
    (pages / "latest").mkdir(exist_ok=True)
    (pages / "latest" / "index.html").write_text(REDIRECT.format(f"../{newest}"), encoding="utf-8")
    (pages / "index.html").write_text(REDIRECT.format("latest"), encoding="utf-8")
    (pages / ".nojekyll").touch()
    listed = [
        {"version": each, "title": each, "aliases": ["latest"] if each == newest else []} for each in reversed(versions)
    ]
    (pages / "versions.json").write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    publish(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
