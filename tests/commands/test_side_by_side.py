"""Several methods in the terminal: side by side where the width allows, whole in either case."""

import io

import pytest
from rich.cells import cell_len

import fakes
import troth
from troth.core.terminal import Console
from troth.report import explanation_screen

TEXT = "a good film with a 漢字 bad ending"


@pytest.fixture(scope="module")
def explained():
    model = fakes.encoder("bert")
    first = troth.Attribution.from_scores(model, TEXT, [0, 4, 0, 0, 0, 1, 2, -3, 0], target=1)
    second = troth.Attribution.from_scores(model, TEXT, [0, 0, 5, 0, 0, 0, 0, 1, -4], target=1)
    return [first, second, first.magnitude()]


def lines(attributions, width, **options):
    console = Console(width=width, file=io.StringIO(), **options)
    explanation_screen.show(console, [attributions])
    return console.file.getvalue().splitlines()


def where(shown, words):
    """Lines and cells in which the words begin."""
    return [
        (number, cell_len(line[:place]))
        for number, line in enumerate(shown)
        for place in range(len(line))
        if line.startswith(words, place)
    ]


@pytest.mark.parametrize(("width", "places"), [(80, [2, 2]), (97, [2, 2]), (98, [2, 52]), (160, [2, 83])])
def test_two_methods(explained, width, places):
    shown = lines(explained[:2], width)
    begun = where(shown, TEXT)
    assert [cell for _, cell in begun] == places
    assert (begun[0][0] == begun[1][0]) == (width >= 98)
    assert max(map(cell_len, shown)) <= width
    signs = [shown[number + 1][cell:][: cell_len(TEXT)].rstrip() for number, cell in begun]
    # Under good, 漢 (25 % of the largest), 字 and bad; under film, bad (20 %) and ending.
    assert signs == ["  ++++             ++++ ---", "       ++++             +++ ------"]


def test_what_does_not_fit_follows_below(explained):
    shown = lines(explained, 110)
    assert [cell for _, cell in where(shown, TEXT)] == [2, 58, 2]
    shown = lines(explained, 160)
    assert len({number for number, _ in where(shown, TEXT)}) == 1


def test_every_number_is_there_at_any_width(explained):
    for width in (60, 98, 160):
        words = " ".join(lines(explained, width)).split()
        for number in ("+4.00,", "+5.00,", "−4.00,", "4.00,"):
            assert number in words, (width, number)


def test_colors_stay_in_their_column(explained):
    shown = lines(explained[:2], 98, force_terminal=True, color_system="truecolor")
    (text,) = (line for line in shown if line.count("ending") == 2)
    assert text.count("48;2;147;197;253m") == 2  # the strongest of each method
    assert "good\x1b[0m" in text.partition("with")[0]
