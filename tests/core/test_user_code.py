"""Code by reference, its fingerprint, and methods of installed packages."""

import subprocess
import sys
import textwrap

import pytest

from troth.core import catalog, user_code
from troth.core.errors import TrothError
from troth.core.hashing import fingerprint

RATE = 2


def scaled(word):
    return RATE * len(word)


def test_what_is_a_reference():
    assert user_code.read("a/b c.py:Mine(width=3)") == ("a/b c.py", "Mine", "(width=3)")
    assert user_code.read("package.module:name") == ("package.module", "name", "")
    for other in (
        "lime",
        "attributive_masking(checkpoint='c:/x')",
        r"C:\models\bert",
        "org/model",
        "./folder",
        3,
        None,
    ):
        assert user_code.read(other) is None


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("nothing.py:Mine", "nothing.py:Mine: there is no file"),
        ("here.py:Other", "no object in here.py is called 'Other'"),
        ("broken.py:Mine", "ZeroDivisionError: division by zero (broken.py, line 2)"),
        ("no_such_module:Mine", "there is no module no_such_module; for a file write no_such_module.py:Mine"),
    ],
)
def test_what_cannot_be_loaded_is_one_line(tmp_path, text, line):
    (tmp_path / "here.py").write_text("Mine = 1\n")
    (tmp_path / "broken.py").write_text("\nMine = 1 / 0\n")
    with pytest.raises(TrothError) as error:
        user_code.load(user_code.read(text), tmp_path)
    assert line in str(error.value)


def test_a_changed_file_is_read_again_and_an_unchanged_one_is_not(tmp_path):
    file, reference = tmp_path / "here.py", user_code.read("here.py:Mine")
    file.write_text("class Mine: value = 1\n")
    first = user_code.load(reference, tmp_path)
    assert user_code.load(reference, tmp_path) is first
    file.write_text("class Mine: value = 2\n")
    assert user_code.load(reference, tmp_path).value == 2


@pytest.mark.parametrize("kind", ["explainers", "metrics", "maskings"])
def test_the_catalog_runs_no_code(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil.py").write_text("open('ran', 'w')\ndef Mine(text): ...\n")
    with pytest.raises(TrothError, match="is code, which runs only where you name it yourself"):
        catalog.build(kind, "evil.py:Mine")
    assert not (tmp_path / "ran").exists()


def made(weight):
    calls = []

    def mine(text):
        calls.append(text)
        return [weight * scaled(word) for word in text.split()]

    return mine


def test_the_fingerprint_follows_closures_globals_and_helpers(monkeypatch):
    before = fingerprint(made(1))
    assert fingerprint(made(1)) == before
    assert fingerprint(made(2)) != before
    monkeypatch.setattr(sys.modules[__name__], "RATE", 3)  # what a helper reads
    assert fingerprint(made(1)) != before


def test_what_the_code_changes_itself_does_not_count():
    mine = made(1)
    before = fingerprint(mine)
    mine("a b c")
    assert fingerprint(mine) == before


def test_the_fingerprint_is_the_same_in_every_process(tmp_path):
    source = """
        from dataclasses import dataclass
        from troth.core.hashing import fingerprint

        WORDS = {"a", "b", "c", "d"}

        @dataclass(frozen=True)
        class Mine:
            width: int = 3

            def score(self, text):
                return [word in WORDS for word in text]

        print(fingerprint(Mine()), fingerprint(Mine(4)))
    """
    (tmp_path / "script.py").write_text(textwrap.dedent(source))
    first, second = (
        subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    )
    assert first == second
    assert len(set(first.split())) == 2


@pytest.fixture
def package(tmp_path, monkeypatch):
    """An installed package that offers an explainer, a metric, and something that is neither."""
    metadata = tmp_path / "troth_extra-1.5.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: troth-extra\nVersion: 1.5\n")
    (metadata / "entry_points.txt").write_text(
        "[troth.explainers]\nlast_word = troth_extra:Last\nlime = troth_extra:Last\nwrong = troth_extra:five\n"
        "tail = troth_extra:tail\n[troth.metrics]\nspread = troth_extra:Spread\npeak = troth_extra:peak\n"
    )
    (tmp_path / "troth_extra.py").write_text(
        textwrap.dedent("""
        from dataclasses import dataclass
        from troth.core.types import Attribution, Score
        from troth.explainers import Explainer
        from troth.metrics import Metric

        five = 5

        def tail(text):
            "The last word counts."
            return [0.0] * (len(text.split()) - 1) + [1.0]

        def peak(attribution):
            return attribution.scores.max()

        @dataclass(frozen=True)
        class Last(Explainer):
            signed = False
            weight: float = 1.0
            def ask(self, question):
                yield from ()
                scores = [0.0] * (question.n_units - 1) + [self.weight]
                return Attribution(question, scores, signed=False)

        @dataclass(frozen=True)
        class Spread(Metric):
            higher_is_better = None
            def ask(self, question, attribution, explain):
                yield from ()
                return Score(float(attribution.scores.std()))
        """)
    )
    monkeypatch.syspath_prepend(tmp_path)
    for cached in (catalog._installed, catalog._plugin):
        cached.cache_clear()
    yield tmp_path
    for cached in (catalog._installed, catalog._plugin):
        cached.cache_clear()
    sys.modules.pop("troth_extra", None)


def test_a_plugin_has_a_card_of_its_own(package, troth):
    code, printed, problem = troth("list", "last_word")
    assert code == 0, problem
    assert printed.splitlines()[0].startswith("last_word(weight=1.0)")
    assert "From the installed package troth-extra 1.5 (troth_extra:Last)." in printed
    code, printed, _ = troth("list", "tail")
    assert (code, printed.splitlines()[0].split()) == (0, ["tail", "explainer"])
    assert "The last word counts." in printed


def test_functions_of_installed_packages_explain_and_measure(package, tmp_path):
    import troth

    model, texts = troth.load_model("embedded"), ["a fine film", "a dull plot"]
    (first, _) = troth.explain(model, texts, "tail")
    assert first.scores.tolist() == [0, 0, 1]
    board = troth.bench(model, texts, ["tail"], ["peak", "sparsity"], tmp_path / "run").leaderboard
    assert not board.failures
    assert (board.summaries["tail", "peak"].value, board.directions["peak"]) == (1.0, True)


def test_methods_of_installed_packages_are_in_the_catalog(package):
    assert {"last_word", "wrong"} <= set(catalog.names("explainers"))
    assert catalog.names("explainers").count("lime") == 1
    assert catalog.find("explainers", "lime").__module__ == "troth.explainers.lime"  # ours is not replaced
    assert "troth_extra" not in sys.modules  # a list imports nothing
    assert "troth-extra 1.5" in catalog.summary("explainers", "last_word")
    built = catalog.build("explainers", "last_word(weight=2.0)")
    assert catalog.spec(built) == "last_word(weight=2.0)"
    with pytest.raises(TrothError, match=r"wrong .* must be a dataclass"):
        catalog.build("explainers", "wrong")


def test_a_bench_with_them_is_stored_and_resumed_by_their_code(package):
    import troth
    from troth.core.types import Example

    data = [Example(str(number), text, label=0) for number, text in enumerate(["a good film", "so bad"])]
    first, again = (
        troth.bench("embedded", data, ["last_word"], ["spread", "sparsity"], package / "run") for _ in range(2)
    )
    assert not first.leaderboard.failures
    assert first.leaderboard.summaries["last_word", "spread"].count == 2
    assert again.outcome.computed == 0
