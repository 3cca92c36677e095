import csv
import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "papers" / "masf"
TEXT = "\n".join((FOLDER / name).read_text(encoding="utf-8") for name in ("results.md", "appendix.md"))
ROWS = FOLDER / "results" / "rows.csv"

_spec = importlib.util.spec_from_file_location("show_masf", ROOT / "scripts" / "models" / "embedded" / "show_masf.py")
show_masf = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(show_masf)


def rows(tmp_path):
    """Two models, two explainers, five shares: p is lower for the plain one and for more erased."""
    columns = ["model", "trained", "references", "count", "form", "variant", "floor", "explainer", "ratio", "tested",
               "p", "below", "right"]  # fmt: skip
    found = []
    for model, trained, least in (("mine", "half mask_token", 0.2), ("plain", "whole", 0.0)):
        for form in ("whole", "half", "all"):
            for variant in ("calibrated", "paper", "left_out"):
                told = [model, trained, "held_out", 50, form, variant, 0.02]
                found.append([*told, "fresh whole", 0.0, 50, 0.5, 1, ""])
                found.append([*told, "fresh same", 0.0, 50, 0.5, 3, ""])
                for explainer in ("random", "gradient")[: 1 if variant == "left_out" else 2]:
                    for ratio in (0.0, 0.5, 0.9, 1.0):
                        p = max(least, round(0.5 * (1 - ratio), 4)) if form == "whole" else 0.5
                        found.append([*told, explainer, ratio, 20, p, 2, round(20 - 10 * ratio)])
    with (tmp_path / "rows.csv").open("w", newline="") as file:
        csv.writer(file).writerows([columns, *found])
    return show_masf.read(tmp_path / "rows.csv")


def test_the_pages_numbers_are_recomputed_from_rows(tmp_path):
    parts = show_masf.parts(rows(tmp_path))
    # 100 % erased: p = 0, the same input for both explainers; 90 %: 0.5 · 0.1 = 0.05, which is not below 0.05.
    # Distinct inputs: 50 and 90 % by two explainers, whole and completely masked once.
    assert "| plain | calibrated | **1 of 6** (lowest p 0.000: 100%) | 0 of 6" in parts["forms"]
    assert "| mine | calibrated | 0 of 6 (lowest p 0.200: random, 90%) | **0 of 6**" in parts["forms"]
    assert "| 100% | 0.200 | 0.500 | 0.500 | **0.000** | 0.500 | 0.500 |" in parts["by_form"]
    assert parts["by_explainer"].endswith("| 90% | 0.050 | 0.050 |\n| 100% | **0.000** | **0.000** |")
    assert "| plain | paper | 0.020 | 0.500 | 0.250 | 0.050 | **0.000** | 10.0 % |" in parts["variants"]
    assert "| mine | held out | calibrated | 2.0 % | 6.0 % |" in parts["calibration"]
    assert "| 50% | 75.0 % | 75.0 % |" in parts["performance"]


def test_every_marked_part_of_the_page_is_written(tmp_path):
    parts = show_masf.parts(rows(tmp_path))
    text = show_masf.filled(TEXT, parts)
    assert all(part in text for part in parts.values())
    assert "To be measured" not in text
    assert show_masf.filled(text, parts) == text
    show_masf.plot(rows(tmp_path), tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000


@pytest.mark.skipif(not ROWS.is_file(), reason="the rows are not measured yet")
def test_the_page_shows_its_rows():
    assert show_masf.filled(TEXT, show_masf.parts(show_masf.read(ROWS))) == TEXT
