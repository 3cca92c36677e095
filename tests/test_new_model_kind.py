"""docs/reference/new_model_kind.md, tried: a file in a temporary folder is all that a kind of model needs."""

import importlib
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, BartConfig, T5Config
from typer.testing import CliRunner

import fakes
import kinds
import troth
import troth.models
import zoo
from troth.cli import app
from troth.core import catalog
from troth.core.errors import TrothError

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "new_model_kind.md"
TEXT = "not a bad film"
WORDS = ["good", "bad", "the"]
SIZES = {
    "t5": {"d_kv": 8, "d_ff": 32, "num_layers": 2, "num_decoder_layers": 1, "num_heads": 2},
    "bart": {
        "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
        "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "max_position_embeddings": 64,
    },
}  # fmt: skip
# What reads the layers of an encoder cannot read these; what needs another model or a checkpoint is left out.
REFUSED = {"alti", "decomp_x", "glob_enc"} | (
    {"attention", "attention_x_gradient", "deep_lift"} if zoo.OLD_T5 else set()
)
NEEDS_MORE = {"llm_ranking", "attributive_masking"}


@pytest.fixture(autouse=True)
def new_kind(tmp_path, monkeypatch):
    """The page's file in one more folder of kinds."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    folder = tmp_path / "more_kinds"
    folder.mkdir()
    (folder / "sequence_to_sequence.py").write_text(code, encoding="utf-8")
    monkeypatch.setattr(troth.models, "__path__", [*troth.models.__path__, str(folder)])
    importlib.invalidate_caches()
    yield
    sys.modules.pop("troth.models.sequence_to_sequence", None)
    vars(troth.models).pop("sequence_to_sequence", None)


def network(family):
    tokenizer = fakes.sentence_piece()
    special = {"mask_token": "<mask>"} if family == "bart" else {"additional_special_tokens": ["<extra_id_0>"]}
    tokenizer.add_special_tokens({"pad_token": "<pad>", **special})
    config = {"t5": T5Config, "bart": BartConfig}[family](
        vocab_size=len(tokenizer), d_model=16, pad_token_id=tokenizer.pad_token_id, bos_token_id=1, eos_token_id=2,
        decoder_start_token_id=2, forced_eos_token_id=None, **SIZES[family],
    )  # fmt: skip
    torch.manual_seed(0)
    model = AutoModelForSeq2SeqLM.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.3)
    return model.eval(), tokenizer


def by_hand(model, tokenizer, ids):
    """Probabilities of the class words as the first one written, straight from transformers."""
    start = torch.tensor([[model.config.decoder_start_token_id]])
    with torch.no_grad():
        logits = model(input_ids=ids[None], decoder_input_ids=start).logits[0, 0]
    return logits[[tokenizer(word, add_special_tokens=False)["input_ids"][0] for word in WORDS]].softmax(-1).numpy()


@pytest.mark.parametrize(("family", "mask"), [("t5", "<extra_id_0>"), ("bart", "<mask>")])
def test_it_explains_and_is_measured(family, mask):
    plain, tokenizer = network(family)
    model = troth.load_model(plain, tokenizer, class_words=WORDS)
    assert type(model).__name__ == "SequenceToSequence"
    assert model.labels == tuple(WORDS)
    before = kinds.state_of(plain)
    (encoding,) = model.encode([troth.Example("0", TEXT)])
    assert encoding.unit_texts == ("not", "a", "bad", "film")
    whole = by_hand(plain, tokenizer, encoding.ids)
    target = int(whole.argmax())
    masked = tokenizer.convert_tokens_to_ids(mask)
    without = [
        by_hand(plain, tokenizer, torch.where(encoding.units == unit, masked, encoding.ids))[target]
        for unit in range(encoding.n_units)
    ]
    (attribution,) = troth.explain(model, TEXT, "leave_one_out(of=probability)")
    np.testing.assert_allclose(attribution.probabilities, whole, atol=1e-5)
    np.testing.assert_allclose(attribution.scores, whole[target] - without, atol=1e-5)
    assert (mask in attribution.note) == (family == "t5")

    first = int(np.argmax(attribution.scores))
    left = by_hand(plain, tokenizer, encoding.ids[encoding.units != first])[target]
    (score,) = troth.measure(model, [attribution], "comprehensiveness(ratio=0.25)")
    assert score.value == pytest.approx(whole[target] - left, abs=1e-5)
    assert kinds.state_of(plain) == before


@pytest.mark.parametrize("name", [name for name in catalog.names("explainers") if name not in NEEDS_MORE])
def test_every_explainer_runs_or_refuses_by_name(name):
    plain, tokenizer = network("t5")
    model = troth.load_model(plain, tokenizer, class_words=WORDS)
    before = kinds.state_of(plain)
    if name in REFUSED:
        with pytest.raises(TrothError, match="use "):
            troth.explain(model, TEXT, name)
        return
    together = troth.explain(model, [TEXT, "the soup was cold and the bill absurd"], name)
    if name != "tf_idf":  # which is fitted on all texts
        (alone,) = troth.explain(model, TEXT, name)
        kinds.close(alone.scores, together[0].scores)
    assert np.isfinite(together[1].scores).all()
    assert kinds.state_of(plain) == before


def test_a_folder_the_command_line_and_a_bench(tmp_path):
    plain, tokenizer = network("t5")
    plain.save_pretrained(tmp_path / "t5")
    tokenizer.save_pretrained(tmp_path / "t5")
    in_memory = troth.load_model(plain, tokenizer, class_words=WORDS)
    folder = troth.load_model(str(tmp_path / "t5"), class_words=WORDS)
    assert folder.fingerprint == in_memory.fingerprint
    (expected,) = troth.explain(in_memory, TEXT, "input_x_gradient")
    command = ["explain", TEXT, "-m", str(tmp_path / "t5"), "--class-words", ",".join(WORDS), "-e", "input_x_gradient"]
    shown = CliRunner().invoke(app, [*command, "--json"])
    assert shown.exit_code == 0, shown.output
    np.testing.assert_allclose(json.loads(shown.stdout)[0]["scores"], expected.scores, atol=1e-5)
    examples = [troth.Example(str(number), text) for number, text in enumerate((TEXT, "a good film"))]
    bench = troth.bench(folder, examples, ["leave_one_out"], ["comprehensiveness"], out=tmp_path / "run")
    assert bench.leaderboard is not None


def test_options_of_other_kinds_are_refused():
    plain, tokenizer = network("t5")
    with pytest.raises(TrothError, match=r"chat is for .* a prompted language model: pass prompt="):
        troth.load_model(plain, tokenizer, class_words=WORDS, chat=True)
    with pytest.raises(TrothError, match="no option of load_model is called 'class_word'; did you mean class_words"):
        troth.load_model(plain, tokenizer, class_word=WORDS)


def test_without_the_file_there_is_no_such_kind(monkeypatch):
    monkeypatch.setattr(troth.models, "__path__", troth.models.__path__[:1])
    plain, tokenizer = network("t5")
    with pytest.raises(TrothError, match="class_words is for a prompted language model"):
        troth.load_model(plain, tokenizer, class_words=WORDS)
