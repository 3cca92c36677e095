"""The page of a cited answer: text is data, and in a browser a click on a sentence colors what it rests on."""

import pytest
from tests.core.test_display import Tags

import troth
from browsing import DESK, PHONE, serious_faults, watched
from browsing import browser as browser
from retrieval import retriever
from troth.core.terminal import Console
from troth.report import cited_answer, export

NASTY = "<script>alert(1)</script>"
PASSAGES = [
    "People of Zor like red things. They often say so.",
    f"It rains in the hills. The key of Zor is blue. Nobody {NASTY} knows why.",
    "The town of Mel has a tower. It is old.",
    "A green bird sings at night. It has two young.",
    "Trains leave from the harbor at noon. Ships do not.",
]


@pytest.fixture(scope="module")
def cited():
    network, tokenizer = retriever()
    names = {f"{NASTY}{number}.txt": passage for number, passage in enumerate(PASSAGES)}
    answer = "Pigs can fly. The key of Zor is blue. A green bird sings at night."
    return troth.cite(network, "What is the key of Zor?", names, answer, tokenizer=tokenizer)


def test_html_is_whole_and_escaped(cited):
    page = Tags(cited._repr_html_())
    assert not {tag for tag, _ in page.tags} & {"script", "link", "iframe"}
    assert page.text.count(NASTY) >= 6
    assert [part.cited for part in cited.parts] == [(), (1,), (3,)]
    assert "It rests on no passage: none matters more than random ones." in page.text
    assert "It rests on [2] (score +" in page.text


def test_the_terminal_shows_numbers_and_proof(cited, capsys):
    cited_answer.show(Console(width=100), cited)
    said = " ".join(capsys.readouterr().out.split())
    assert "The key of Zor is blue. [2]" in said
    assert "Pigs can fly. [no passage]" in said
    assert "*[2] " in said
    assert "all 4 choices" in said
    assert "Without [2], its log-probability falls by" in said


@pytest.mark.parametrize("count", [3, 4])
def test_a_remark_where_few_passages_are_cited(count):
    network, tokenizer = retriever()
    answer = "The key of Zor is blue."
    few = troth.cite(network, "What is the key of Zor?", PASSAGES[:count], answer, tokenizer=tokenizer)
    assert few.cited == (1,)
    assert ("With fewer than 4 passages" in " ".join(cited_answer.remarks(few))) == (count < 4)


@pytest.mark.parametrize("viewport", [DESK, PHONE])
def test_a_click_colors_what_a_sentence_rests_on(cited, browser, tmp_path, viewport):
    path = tmp_path / "page.html"
    export.write_page(path, "What the answer rests on", [cited_answer.html(cited)])

    def colored():
        return page.evaluate(
            "[...document.querySelectorAll('.passage span')].filter(one => "
            "!['rgba(0, 0, 0, 0)', 'transparent'].includes(getComputedStyle(one).backgroundColor))"
            ".map(one => one.textContent)"
        )

    with watched(browser, path.as_uri(), viewport) as page:
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.get_by_text("The key of Zor is blue. [2]").last.click()
        assert "The key of Zor is blue." in colored()
        assert "A green bird sings at night." not in colored()
        page.keyboard.press("ArrowDown")
        assert "A green bird sings at night." in colored()
        assert "The key of Zor is blue." not in colored()
        page.get_by_text("Pigs can fly. [no passage]").last.click()
        assert colored() == []
        assert page.get_by_text("It rests on no passage").is_visible()
        assert serious_faults(page) == []
