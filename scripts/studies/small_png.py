"""A figure as a file a quarter of its size: line drawings need few colors."""

from pathlib import Path
from typing import IO

from PIL import Image

COLORS = 255


def keep(source: Path | IO[bytes], target: Path) -> None:
    with Image.open(source) as image:
        few = image.convert("RGB").quantize(COLORS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        few.save(target, optimize=True)
