"""What results say of themselves: a short line without tensors, and HTML for notebooks in which text is data."""

import re
from html.parser import HTMLParser

import pytest
from tests.report.boards import board

import fakes
import troth
from troth.core.results import Attributions, Explanations, Scores
from troth.core.types import Score
from troth.data import Data
from troth.studies import Section
from troth.studies.roar import Roar
from troth.sweep.bench import Bench

NASTY = "<script>alert(1)</script> a good \x1b[2J film"


class Tags(HTMLParser):
    """The tags of a piece of HTML, which must close in the right order, and its text."""

    def __init__(self, html):
        super().__init__()
        self.open, self.tags, self.texts = [], [], []
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in ("br", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def text(self):
        return "".join(self.texts)


@pytest.fixture(scope="module")
def model():
    return fakes.encoder("bert")


@pytest.fixture(scope="module")
def explained(model):
    return troth.prove(model, troth.explain(model, [NASTY, "a bad film"], ["leave_one_out", "gradient"]))


def shown(model, explained):
    numbers = board({NASTY: [0.5], "b": [0.25]}, {"metric": True}, model=NASTY)
    yield explained
    yield explained["gradient"]
    yield explained["gradient"][0]
    yield troth.measure(model, explained["gradient"], "comprehensiveness")
    yield troth.load_data([{"text": NASTY, "label": 0}, {"text": "b", "label": 1}], labels=[NASTY, "fine"])
    yield model
    yield fakes.Lookup({"good film": [0, 2]})
    yield numbers
    yield Bench("runs/<b>", None, numbers)
    yield Section("p", NASTY, ["data"], [[NASTY]], NASTY)
    yield Section("p", NASTY, ["data"], [[0.5]], draw=lambda figure: figure.subplots().plot([1, 2]))
    yield Roar()


def test_everything_shows_itself(model, explained):
    for thing in shown(model, explained):
        line = repr(thing)
        assert not re.search(r"tensor\(|array\(|0x[0-9a-f]{6}", line), line
        assert len(line.splitlines()[0]) < 500
        assert "\x1b" not in line
        page = Tags(thing._repr_html_())
        assert not {tag for tag, _ in page.tags} & {"script", "b>", "link", "iframe"}
        assert not any(re.match(r"(https?:)?//", facts.get("src") or "") for _, facts in page.tags)
        assert "troth-shown" in page.tags[0][1]["class"]


def test_internal_things_have_a_short_line(explained):
    question = explained["gradient"][1].question
    assert repr(question.encoding) == "<Encoding of '1': 5 tokens, 3 words>"
    assert repr(question).startswith(f"<Question about class {question.target} of <Encoding")


def test_the_line_of_an_attribution(model):
    attribution = troth.Attribution.from_scores(model, "a good film", [0, 2, -1], target=1)
    assert repr(attribution) == (
        f"<Attribution of '0' by imported scores → LABEL_1 ({100 * attribution.probabilities[1]:.0f} %); "
        "strongest: good +2.00, film −1.00, a 0.00>"
    )


def test_methods_stand_side_by_side(explained):
    assert isinstance(explained, Explanations)
    page = Tags(explained._repr_html_())
    grids = [facts for tag, facts in page.tags if "grid-template-columns" in (facts.get("style") or "")]
    assert len(grids) == 2  # a row of methods per text
    assert page.text.index("leave_one_out") < page.text.index("gradient") < page.text.rindex("leave_one_out")
    assert "scores under 20 % of the largest score of a text are not marked" in page.text
    titles = [facts["title"] for _, facts in page.tags if "title" in facts]
    assert titles == [
        f"{score:+.4g}" for row in zip(*explained.values(), strict=True) for each in row for score in each.scores
    ]


def test_explanations_are_still_a_dict_and_leave_the_tool(explained):
    assert list(explained) == ["leave_one_out", "gradient"]
    assert isinstance(explained["gradient"][1:], Attributions)
    assert explained.to_csv().count("\n") == 1 + sum(len(each.scores) for some in explained.values() for each in some)
    changed = Explanations({"a": explained["gradient"], "b": explained["gradient"][:1]})  # a user's own
    assert repr(changed).count("\n") == 3
    assert Tags(changed._repr_html_()).text.count("strongest: ") == 3


def test_long_lists_show_their_beginning(explained):
    many = Attributions([*explained["gradient"]] * 600)
    assert repr(many).splitlines()[-1] == "  … and 1,180 more"
    page = Tags(many._repr_html_())
    assert "… and 1,180 more" in page.text
    assert page.text.count("strongest: ") == 20
    assert "<Attributions of 0 texts>" in repr(Attributions())
    assert "… and 1 more" in Scores([Score(0.5)] * 21)._repr_html_()


def test_what_was_written_is_shown_as_a_matrix():
    model = troth.load_model(fakes.causal_model("gpt2"), fakes.causal_tokenizer("gpt2"), continuation="the film")
    found = troth.explain(model, ["a film", "a book"], ["leave_one_out", "gradient"], target="each")
    assert Tags(found._repr_html_()).text.count("how much each word (across)") == 4
    assert Tags(found["gradient"]._repr_html_()).text.count("how much each word (across)") == 2
    assert repr(found["gradient"].matrices()[0]) == "<Matrix of '0' by gradient: 2 targets, 2 words>"


def test_data_name_their_classes():
    rows = [{"text": f"film {number}", "label": number % 2} for number in range(7)]
    data = troth.load_data(rows, labels=["bad", "good"])
    assert repr(data) == "<Data memory: 7 examples; bad 4, good 3>"
    text = Tags(data._repr_html_()).text
    assert "film 4" in text
    assert "film 5" not in text
    assert "… and 2 more" in text
    several = Data("x", [troth.Example("0", "t", "u", label=(0, 1)), troth.Example("1", "t")], ("a", "b"))
    assert repr(several) == "<Data x: 2 examples; a, b 1>"


def test_a_figure_travels_in_the_page():
    section = Section("p", "Curves", ["x"], [[1]], draw=lambda figure: figure.subplots().plot([1, 2]))
    (picture,) = (facts for tag, facts in Tags(section._repr_html_()).tags if tag == "img")
    assert picture["alt"] == "Curves"
    assert picture["src"].startswith("data:image/svg+xml;base64,")
