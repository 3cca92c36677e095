"""Colors that everybody can read: enough contrast on dark and light ground, and directions that no eye confuses."""

import re

import numpy as np
import pytest
from rich.style import Style

from troth.report.explanation import FAINT, ground, style

STRENGTHS = [0.25, 0.35, 0.5, 0.75, 1.0]
# Linear RGB as people see it who lack one kind of cone (Machado et al., 2009, severity 1.0).
DEFICIENCIES = {
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def linear(color):
    """[3] of 0 … 255 as light."""
    share = np.asarray(color, float) / 255
    return np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    """As WCAG 2 defines it; 4.5 is what text needs."""
    light, dark = sorted((linear(color) @ [0.2126, 0.7152, 0.0722] for color in (one, other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def lab(light):
    """CIE Lab of linear RGB."""
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ light
    share = np.clip(xyz / [0.9505, 1.0, 1.089], 0, None)
    x, y, z = np.where(share > 0.008856, np.cbrt(share), 7.787 * share + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def on_page(strength, page):
    """The ground of a word on a page of one color."""
    *color, alpha = map(float, re.search(r"rgba\((\d+),(\d+),(\d+),([\d.]+)\)", ground(strength)).groups())
    return alpha * np.array(color) + (1 - alpha) * np.array(page)


def in_terminal(strength):
    """Ink and ground of a word."""
    parsed = Style.parse(style(strength))
    return [tuple(getattr(parsed, side).triplet) for side in ("color", "bgcolor")]


PAGES = {"white": ([255] * 3, [0] * 3), "black": ([0] * 3, [255] * 3), "a dark notebook": ([17] * 3, [221] * 3)}


@pytest.mark.parametrize("strength", [sign * strength for strength in STRENGTHS for sign in (1, -1)])
def test_words_can_be_read(strength):
    for page, ink in PAGES.values():
        assert contrast(on_page(strength, page), ink) >= 4.5
    assert contrast(*in_terminal(strength)) >= 4.5


@pytest.mark.parametrize("kind", DEFICIENCIES)
def test_both_directions_differ_for_the_color_blind(kind):
    """By 10 in Lab or more: a difference that is seen at a glance."""
    seen = np.array(DEFICIENCIES[kind])
    for strength in (0.5, 1.0):
        grounds = [[on_page(sign * strength, page) for sign in (1, -1)] for page, _ in PAGES.values()]
        grounds.append([in_terminal(sign * strength)[1] for sign in (1, -1)])
        for toward, away in grounds:
            one, other = (lab(np.clip(seen @ linear(color), 0, 1)) for color in (toward, away))
            assert np.linalg.norm(one - other) >= 10, (kind, strength, toward, away)


def test_both_directions_differ_without_color():
    assert "solid" in ground(0.5)
    assert "dotted" in ground(-0.5)
    assert "border-bottom" not in ground(FAINT / 2)
    assert not Style.parse(style(0.5)).underline
    assert Style.parse(style(-0.5)).underline
