import importlib.util
import sys
from pathlib import Path

from troth.core import catalog

ROOT = Path(__file__).parent.parent
_spec = importlib.util.spec_from_file_location("document", ROOT / "scripts" / "docs" / "document.py")
document = sys.modules["document"] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(document)


def test_counts_become_lines():
    assert document.by_length([3, 3, 3], (20, 40, 60)) == "3"
    assert document.by_length([21, 41, 61], (20, 40, 60)) == "n + 1"
    assert document.by_length([39, 79, 119], (20, 40, 60)) == "2n − 1"
    assert document.by_length([20, 40, 60], (20, 40, 60)) == "n"
    assert document.by_length([4, 16, 36], (2, 4, 6)) == "4, 16, 36 at n = 2, 4, 6"


def test_a_paper_is_told_from_the_definition():
    what, paper = document.definition("metrics", "importance_correlation")
    assert paper == "CORR; Arya et al., 2019"
    assert what.endswith("when that unit alone is masked.")
    assert document.definition("metrics", "log_odds")[1] == "Shrikumar et al., 2017"


def test_costs_are_those_of_the_definition():
    assert document.metric_cost("comprehensiveness") == "2"
    assert document.metric_cost("monotonicity") == "n + 1"
    assert document.metric_cost("sparsity") == "0"
    # Two curves of eleven points share the whole and the empty input; the first and last step explain nothing again,
    # but the gold class is explained where the explanation given is about another.
    assert document.metric_cost("recursive_erasure") == "20 and 9 explanations"
    assert document.explainer_cost("leave_one_out", (12, 24, 36)) == "n + 1"
    assert document.explainer_cost("gradient", (12, 24, 36)) == "1, 1 backward"


def test_models_are_tried():
    assert document.models_of("leave_one_out")[0] == "every encoder, prompted language models, black boxes"
    assert document.models_of("gradient")[0] == "every encoder, prompted language models"


def test_every_metric_says_what_a_reader_needs():
    for name in catalog.names("metrics"):
        found = catalog.find("metrics", name)
        assert found.bounds, name
        assert found.pitfalls.endswith("."), name


def test_the_metrics_page_is_up_to_date():
    written = (ROOT / "docs" / "methods" / "metrics.md").read_text(encoding="utf-8")
    assert written == document.metrics_page(), "run python scripts/docs/document.py"


def test_the_maskings_and_catalog_pages_are_up_to_date():
    written = (ROOT / "docs" / "methods" / "maskings.md").read_text(encoding="utf-8")
    assert written == document.maskings_page(), "run python scripts/docs/document.py"
    written = (ROOT / "docs" / "reference" / "catalog.md").read_text(encoding="utf-8")
    assert written == document.catalog_page(), "run python scripts/docs/document.py"


def test_the_glossary_explains_terms_as_the_report_does():
    from troth.report.run_page import _GLOSSARY

    page = (ROOT / "docs" / "reference" / "glossary.md").read_text(encoding="utf-8")
    missing = {term: text for term, text in _GLOSSARY.items() if f"| {term} | {text} |" not in page}
    assert not missing, "docs/reference/glossary.md says something else"
