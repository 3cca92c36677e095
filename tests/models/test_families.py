"""What is known of single families stands in one file; what can be tried is tried."""

import ast
from pathlib import Path

import pytest

import fakes
import troth
from troth.models import families

SOURCE = Path(troth.__file__).parent
LISTS = [value for name, value in vars(families).items() if name.isupper() and isinstance(value, tuple)]
NAMES = {name for names in LISTS for name in names} - set(families.OWN)
# The RoBERTa table of the ROAR paper is a table of results, and the referee builds small models of some families:
# neither is knowledge of a family.
ELSEWHERE = {SOURCE / "studies" / "roar" / "_retrained.py", *(SOURCE / "refereeing").rglob("*.py")}


def test_no_other_file_names_a_family():
    wrong = []
    for path in set(SOURCE.rglob("*.py")) - ELSEWHERE - {SOURCE / "models" / "families.py"}:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in NAMES:
                wrong.append(f"{path.relative_to(SOURCE)}:{node.lineno} {node.value!r}")
    assert not wrong, wrong


@pytest.mark.parametrize("family", fakes.FAMILIES)
def test_what_is_found_of_the_families_that_every_test_uses(family):
    model = fakes.encoder(family)
    convention = model.call_convention
    assert (convention.first_position is not None) == ("roberta" in family)
    assert (model.embedding_output_size != model.model.config.hidden_size) == (family in ("albert", "electra"))
    assert (convention.reads, convention.decoder_start, convention.width) == (
        "first",
        None,
        None,
    )
    assert not convention.needs_mask
    assert families.reads_both_ways(model.model.config)
    assert not families.is_block_sparse(model.model)


def test_decoders():
    config = fakes.causal_model("llama").config
    assert families.writes(config)
    assert not families.reads_both_ways(config)
    assert not families.writes(fakes.hf_model("bert").config)
    assert families.has_rms_norm(fakes.causal_model("llama"))
    assert not families.has_rms_norm(fakes.causal_model("gpt2"))


def test_how_far_layers_reach():
    """Longformer's windows are a list, BERT names none."""
    assert families.reach(fakes.hf_model("bert").config) == 0
    assert families.reach(type("Config", (), {})()) == 0
    config = type("Config", (), {})()
    config.attention_window, config.local_attn_chunk_length, config.hidden_size = [4, 8], 6, 768
    assert families.reach(config) == 8
