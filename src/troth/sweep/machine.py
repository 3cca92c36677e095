"""The hardware and package versions of a run, determined without importing the packages."""

import os
import platform
from contextlib import suppress
from glob import glob
from importlib import metadata
from pathlib import Path

_PACKAGES = ("troth", "torch", "transformers", "tokenizers", "numpy", "pyarrow", "duckdb", "ray", "captum")


def versions() -> dict[str, str]:
    """The versions of Python and of the packages that may affect results."""
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    return versions


def hardware() -> dict[str, str | int | list[str]]:
    """The machine: system, processor, cores, memory, GPUs."""
    return {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": _line("/proc/cpuinfo", "model name") or platform.processor(),
        "cores": os.cpu_count() or 1,
        "memory_gb": _memory(),
        "gpus": [_line(path, "Model") for path in sorted(glob("/proc/driver/nvidia/gpus/*/information"))],
    }


def gpus() -> list[str]:
    """The GPUs that this process may use, determined without importing a library."""
    if (visible := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        return [device for device in visible.split(",") if device.strip() not in ("", "-1")]
    return [str(number) for number in range(len(glob("/dev/nvidia[0-9]*")))]


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _memory() -> int:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)
    except (ValueError, OSError, AttributeError):
        return 0


def _line(path: str, key: str) -> str:
    with suppress(OSError):
        for line in Path(path).read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == key:
                return value.strip()
    return ""
