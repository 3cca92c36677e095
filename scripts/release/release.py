"""Builds the wheel and the source distribution of the last commit in dist/, the same bytes wherever and whenever.

python scripts/release/release.py           builds both twice, fails if their hashes differ, and prints them
"""

import gzip
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = "from setuptools import build_meta as b; b.build_wheel({0!r}); b.build_sdist({0!r})"


def build(out: Path, archive: bytes, epoch: int) -> dict[str, str]:
    """name -> SHA-256 of the files built from a tar archive of the sources."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        source = Path(temporary) / "source"
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(source, filter="data")
        for path in source.rglob("*"):  # whatever the umask was
            path.chmod(0o755 if path.is_dir() else 0o644)
            os.utime(path, (epoch, epoch))
        environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch), "PYTHONHASHSEED": "0"}
        subprocess.run(
            [sys.executable, "-c", BUILD.format(str(out))], cwd=source, env=environment, check=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    for path in out.glob("*.tar.gz"):
        normalize(path, epoch)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(out.iterdir())}


def normalize(path: Path, epoch: int) -> None:
    """The same tar archive in order of names, without owners, times and modes of this machine."""
    with tarfile.open(path) as before:
        members = {member.name: (member, before.extractfile(member)) for member in before.getmembers()}
        contents = {name: file.read() if file else b"" for name, (_, file) in members.items()}
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as after:
        for name in sorted(members):
            info = tarfile.TarInfo(name)
            info.type, info.mtime, info.size = members[name][0].type, epoch, len(contents[name])
            info.mode = 0o755 if info.isdir() else 0o644
            after.addfile(info, io.BytesIO(contents[name]))
    with path.open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=epoch) as zipped:
        zipped.write(packed.getvalue())


def main() -> None:
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True).stdout
    said = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=True)
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or said.stdout)
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    with tempfile.TemporaryDirectory() as again:
        first, second = build(ROOT / "dist", archive, epoch), build(Path(again), archive, epoch)
    if first != second:
        sys.exit(f"built twice, the hashes differ: {first} and {second}")
    for name, digest in first.items():
        print(f"{digest}  dist/{name}")


if __name__ == "__main__":
    main()
