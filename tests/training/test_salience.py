import json
import math

import numpy as np
import pytest
import torch
from transformers import FNetConfig, FNetForSequenceClassification

from fakes import CORPUS, encoder
from troth import load_model, salience
from troth.core.errors import TrothError
from troth.core.types import Example
from troth.models import Output
from troth.models.black_box import BlackBox
from troth.models.encoder import Encoder
from troth.studies import published
from troth.training import presets, recipes
from troth.training import train as fit
from troth.training.bases.bilstm_attention import BilstmAttention
from troth.training.bases.scratch import Scratch
from troth.training.corpus import Corpus
from troth.training.recipes.masked import Masked
from troth.training.recipes.salience import Salience, divergence, released_divergence
from troth.verbs.explain import explain

TINY = Scratch(layers=1, hidden=16, heads=2, positions=32)
MODEL = encoder("bert")
TEXTS = [Example(str(n), text, label=n % 2) for n, text in enumerate(CORPUS)]


def corpus(examples, model=MODEL):
    return Corpus(model.encode(examples, units="token", segments="both"), [example.label for example in examples])


def rows_of(data, model=MODEL, index=None):
    index = torch.arange(len(data)) if index is None else index
    return data.rows(index, torch.zeros(len(index), dtype=torch.int64), model)


def attentions(rows, seed=0, heads=2):
    generator = torch.Generator().manual_seed(seed)
    length = rows.ids.shape[1]
    scores = torch.randn(len(rows), heads, length, length, generator=generator, dtype=torch.float64)
    return scores.masked_fill(~rows.real[:, None, None], -math.inf).softmax(-1)


def by_definition(model, example, attention, weights):
    """λ-free KL of one row, straight from the paper: the [CLS] row, mean over heads, against TextRank."""
    ids = model.tokenizer(example.text, example.text_pair).input_ids if example.text_pair else None
    ids = ids or model.tokenizer(example.text).input_ids
    special = set(model.tokenizer.all_special_ids)
    text = [place for place, token in enumerate(ids) if token not in special]
    alpha = [float(np.mean([attention[head][0][place] for head in range(len(attention))])) for place in text]
    alpha = [value / sum(alpha) for value in alpha]
    sigma = [(value + 1e-8) / sum(other + 1e-8 for other in weights) for value in weights]
    return sum(a * (math.log(a) - math.log(s)) for a, s in zip(alpha, sigma, strict=True))


def test_divergence_by_hand():
    # [CLS] has half of the attention; the rest is 1/2, 1/2 against 1/4, 3/4.
    attention = torch.tensor([[0.5, 0.25, 0.25, 0.0]])
    inside = torch.tensor([[False, True, True, False]])
    expected = 0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75)
    assert float(divergence(attention, torch.tensor([[0.0, 0.25, 0.75, 0.0]]), inside)) == pytest.approx(expected)
    assert float(divergence(attention, attention, inside)) == pytest.approx(0)
    # No attention at all on a token costs nothing; a text without tokens neither.
    assert float(divergence(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.5, 0.5]]), inside[:, 1:3])) == pytest.approx(
        math.log(2)
    )
    assert float(divergence(attention, attention, torch.zeros_like(inside))) == 0


def test_the_released_code_softmaxes_again_sums_and_squares():
    attention, sigma = torch.tensor([[0.9, 0.2, 0.1], [0.0, 0.3, 0.7]]), torch.tensor([[0, 0.25, 0.75], [0, 0.5, 0.5]])
    inside = torch.tensor([[False, True, True]] * 2)
    total = 0.0
    for row in range(2):
        a, s = (np.exp(part[row, 1:].numpy()) for part in (attention, sigma))
        a, s = a / a.sum(), s / s.sum()
        total += float((a * np.log(a / s)).sum())
    assert float(released_divergence(attention, sigma, inside)) == pytest.approx(total, rel=1e-5)
    data = corpus(TEXTS[:3])
    rows = rows_of(data)
    output = Output(torch.zeros(3, 2), (attentions(rows),))
    recipe = Salience(variant="released", weight=0.5).prepare(MODEL, data.encodings)
    summed = released_divergence(attentions(rows)[:, :, 0].mean(1), recipe.fitted.of(rows), rows.units >= 0)
    # The loop takes the mean over rows, so each row carries the whole.
    assert recipe.penalty(output, rows).tolist() == pytest.approx([0.5 * float(summed) ** 2] * 3)


@pytest.mark.parametrize("source", ["text_rank", "tf_idf", "chi_squared", "uniform"])
def test_the_penalty_follows_the_paper(source):
    data = corpus(TEXTS)
    recipe = Salience(source=source, weight=0.25).prepare(MODEL, data.encodings)
    index = torch.tensor([4, 1, 6])
    rows = rows_of(data, index=index)
    weights = attentions(rows)
    found = recipe.penalty(Output(torch.zeros(3, 2), (torch.zeros_like(weights), weights)), rows)
    texts = [[str(token) for token in MODEL.tokenizer(one.text).input_ids[1:-1]] for one in TEXTS]
    measure = salience.fit_salience(source, texts, [one.label for one in TEXTS])
    for row, place in enumerate(index.tolist()):
        expected = 0.25 * by_definition(MODEL, TEXTS[place], weights[row].tolist(), measure(texts[place]))
        assert float(found[row]) == pytest.approx(expected, rel=1e-5)


def test_pairs_count_the_second_text_and_the_separator_links_them():
    example = Example("p", "a good film", "is it good ?", 0)
    data = corpus([example])
    recipe = Salience(weight=1.0).prepare(MODEL, data.encodings)
    rows = rows_of(data)
    ids = MODEL.tokenizer(example.text, example.text_pair).input_ids
    ranks = salience.text_rank([str(token) for token in ids[1:-1]])
    both = [rank for rank, token in zip(ranks, ids[1:-1], strict=True) if token != MODEL.tokenizer.sep_token_id]
    weights = attentions(rows)
    found = recipe.penalty(Output(torch.zeros(1, 2), (weights,)), rows)
    assert float(found[0]) == pytest.approx(by_definition(MODEL, example, weights[0].tolist(), both), rel=1e-5)


def test_the_gradient_of_the_loss_is_the_numerical_one():
    data = corpus(TEXTS[:3])
    rows = rows_of(data)
    for variant in ("paper", "released"):
        recipe = Salience(variant=variant, weight=0.7).prepare(MODEL, data.encodings)

        def loss(scores, logits, recipe=recipe):
            weights = scores.masked_fill(~rows.real[:, None, None], -1e9).softmax(-1)
            cross_entropy = torch.nn.functional.cross_entropy(logits, rows.target)
            return cross_entropy + recipe.penalty(Output(logits, (weights,)), rows).mean()

        generator = torch.Generator().manual_seed(1)
        length = rows.ids.shape[1]
        scores = torch.randn(3, 2, 1, length, dtype=torch.float64, generator=generator, requires_grad=True)
        logits = torch.randn(3, 2, dtype=torch.float64, generator=generator, requires_grad=True)
        assert torch.autograd.gradcheck(loss, (scores, logits))


def test_the_gradient_is_finite_where_attention_is_zero():
    data = corpus(TEXTS[:1])
    recipe, rows = Salience(weight=1.0).prepare(MODEL, data.encodings), rows_of(data)
    scores = torch.full((1, 1, 1, rows.ids.shape[1]), -200.0)
    scores[..., 3] = 0.0
    scores.requires_grad_()
    recipe.penalty(Output(torch.zeros(1, 2), (scores.softmax(-1),)), rows).sum().backward()
    assert bool(torch.isfinite(scores.grad).all())


def test_deleted_tokens_take_their_salience_along_and_masked_ones_leave_it():
    data = corpus(TEXTS[:2])
    recipe = Salience(weight=1.0).prepare(MODEL, data.encodings)
    before = data.rows(torch.arange(2), data.keys(0, "x"), MODEL)
    place = torch.arange(2)
    shorter = Masked(train="masking", masking="delete").rows(before, place, 2, MODEL)
    sigma = recipe.fitted.of(before)
    for row in range(2):
        left = shorter.units[row][shorter.units[row] >= 0]
        assert 0 < len(left) < data.encodings[row].n_units
        assert recipe.fitted.of(shorter)[row][shorter.units[row] >= 0].tolist() == sigma[row][1:][left].tolist()
    masked = Masked(train="masking").rows(before, place, 2, MODEL)
    assert torch.equal(recipe.fitted.of(masked), sigma)


@pytest.mark.full
def test_training_brings_attention_and_salience_together(films, tmp_path):
    settings = {"epochs": 10, "batch_size": 8, "learning_rate": 5e-3, "validation": films(20, start=200)}
    far = {}
    for name, recipe in {
        "plain": "plain",
        "guided": "salience(weight=1.0)",
        "both": "masked + salience(weight=1.0)",
    }.items():
        trained = fit.train(recipe, films(100), TINY, tmp_path / name, **settings)
        assert trained.scores["validation"]["unmasked"]["accuracy"] >= 0.9
        assert set(trained.scores["validation"]) >= ({"unmasked", "all_masked"} if name == "both" else {"unmasked"})
        model = load_model(str(tmp_path / name), device="cpu")
        distances = []
        for one in explain(model, films(20, start=200), "attention", units="token"):
            alpha = one.scores / one.scores.sum()
            sigma = salience.normalize(salience.text_rank(list(one.units)))
            distances.append(float((alpha * np.log(alpha / sigma)).sum()))
        far[name] = np.mean(distances)
    assert far["guided"] < 0.1 * far["plain"]
    assert far["both"] < 0.1 * far["plain"]


def test_a_weight_of_zero_trains_the_plain_model_to_the_last_bit(films, tmp_path):
    base = Scratch(layers=2, hidden=16, heads=2)  # its dropout depends on the attention implementation
    weights = {}
    for name in ("plain", "salience(weight=0.0)", "salience(weight=0.1)"):
        folder = tmp_path / str(len(weights))
        fit.train(name, films(40), base, folder, validation=films(10, start=40), epochs=2, progress=False)
        weights[name] = (folder / "model.safetensors").read_bytes()
    plain, zero, guided = weights.values()
    assert zero == plain
    assert guided != plain


def test_a_bilstm_is_guided_too(films, tmp_path):
    for pair in (False, True):
        base = BilstmAttention(embedding=8, hidden=8)
        options = {"epochs": 1, "batch_size": 8, "validation": films(6, start=50, pair=pair)}
        trained = fit.train("salience", films(16, pair=pair), base, tmp_path / str(pair), **options)
        assert math.isfinite(trained.report["history"][0]["loss"])


def test_stored_scores_are_a_salience(films, tmp_path):
    examples = films(6)
    model = TINY.build(examples, ("bad", "good"), 0, None)
    words = explain(model, examples, "input_x_gradient")
    path = tmp_path / "scores.jsonl"
    path.write_text("".join(json.dumps(one.to_dict()) + "\n" for one in words))
    data = corpus(examples, model)
    recipe = Salience(source=str(path)).prepare(model, data.encodings)
    sigma = recipe.fitted.of(rows_of(data, model))
    for row, one in enumerate(words):
        expected = salience.normalize(np.abs(one.scores).astype(np.float64))  # one token a word here
        assert sigma[row][1 : 1 + len(expected)].tolist() == pytest.approx(expected.tolist())
    # An array serves as well, and a word's score is shared by its pieces.
    long = Example("long", "unlovable film", label=0)
    spans, scores = [[0, 9], [10, 14]], [-3.0, 1.0]
    other = tmp_path / "scores.json"
    other.write_text(json.dumps([{"id": "long", "spans": spans, "scores": scores}]))
    pieces = corpus([long])
    shares = Salience(source=str(other)).prepare(MODEL, pieces.encodings).fitted.of(rows_of(pieces))[0]
    inside = pieces.encodings[0].units >= 0
    ends = [end for _, end in pieces.encodings[0].unit_spans]
    first = sum(end <= 9 for end in ends)
    assert shares[inside].tolist() == pytest.approx(
        [0.75 / first] * first + [0.25 / (len(ends) - first)] * (len(ends) - first)
    )


def test_other_scores_are_another_training(films, tmp_path):
    examples, path = films(12), tmp_path / "scores.jsonl"
    options = {"epochs": 1, "validation": films(4, start=50)}

    def write(score):
        rows = [{"id": one.id, "spans": [[0, 3]], "scores": [score]} for one in examples]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    write(1.0)
    first = fit.train(f"salience(source='{path}')", examples, TINY, tmp_path / "m", **options)
    assert fit.train(f"salience(source='{path}')", examples, TINY, tmp_path / "m", **options) == first
    write(2.0)
    with pytest.raises(TrothError, match="contains a different training: its recipe files is"):
        fit.train(f"salience(source='{path}')", examples, TINY, tmp_path / "m", **options)


def test_lambda_comes_from_the_paper_the_user_or_the_usual_one():
    names = {
        "SST": "sst",
        "AG": "ag_news",
        "EvInf": "evidence_inference",
        "MultiRC": "multirc",
        "SemEval": "semeval2017_4a",
    }
    rows = [row for row in published.read("saloss_performance") if row["quantity"] == "lambda"]
    assert len(rows) == 5
    for row in rows:
        recipe = presets.recipe_like("saloss", recipes.build("masked + salience"), names[row["dataset"]])
        assert recipe.parts[1].weight == float(row["value"])
    assert presets.recipe_like(None, Salience(), "ag_news").weight == 1e-3
    assert presets.recipe_like("saloss", Salience(weight=0.5), "ag_news").weight == 0.5


def test_train_json_says_lambda_and_the_saliences_name(films, tmp_path):
    trained = fit.train("salience(source=tf_idf)", films(12), TINY, tmp_path, epochs=1, validation=films(4, start=50))
    assert trained.report["identity"]["recipe"] == "salience(source='tf_idf', weight=0.001, variant='paper')"


def test_bad_input_is_one_line(films, tmp_path):
    data = corpus(TEXTS)
    blind = BlackBox(lambda texts: [[0.5, 0.5]] * len(texts), labels=["a", "b"], name="a function")
    fourier = FNetForSequenceClassification(
        FNetConfig(vocab_size=len(MODEL.tokenizer), hidden_size=8, num_hidden_layers=1, intermediate_size=8)
    )
    for model in (blind, Encoder(fourier, MODEL.tokenizer, name="a Fourier net")):
        encodings = model.encode([TEXTS[0]], units="word")
        with pytest.raises(TrothError, match=f"{model.name} gives no attention weights.*use another base"):
            Salience().prepare(model, encodings)
    empty = [Example(str(n), "", label=n % 2) for n in range(4)]
    with pytest.raises(TrothError, match="needs training texts with words; all of them are empty"):
        Salience().prepare(MODEL, corpus(empty).encodings)
    with pytest.warns(UserWarning, match="1 training texts are empty"):
        recipe = Salience(weight=1.0).prepare(MODEL, (some := corpus([*TEXTS, Example("e", "", label=0)])).encodings)
    rows = rows_of(some)
    assert float(recipe.penalty(Output(torch.zeros(len(some), 2), (attentions(rows),)), rows)[-1]) == 0
    for source in ("text_rank", "tf_idf", "chi_squared"):
        with pytest.raises(
            TrothError, match=f"one and the same token, so {source} gives every word the same.*source=uniform"
        ):
            Salience(source=source).prepare(
                MODEL, corpus([Example(str(n), "film film", label=n % 2) for n in range(3)]).encodings
            )
    with pytest.raises(TrothError, match=r"source must be text_rank, tf_idf.*not 'textrank'"):
        recipes.build("salience(source=textrank)")
    with pytest.raises(TrothError, match="must be 0 or more, not -1"):
        recipes.build("salience(weight=-1)")
    with pytest.raises(TrothError, match=r"cannot read the scores in .*none.jsonl: No such file"):
        Salience(source=str(tmp_path / "none.jsonl")).prepare(MODEL, data.encodings)
    path = tmp_path / "few.jsonl"
    path.write_text('{"id": "0", "spans": [[0, 1]], "scores": [1.0]}\n')
    with pytest.raises(TrothError, match=r"few.jsonl has no scores of example 1; explain all"):
        Salience(source=str(path)).prepare(MODEL, data.encodings)
    path.write_text('{"id": "0", "spans": [[0, 1]], "scores": [1.0, 2.0]}\n')
    with pytest.raises(TrothError, match="2 scores for 1 spans"):
        Salience(source=str(path)).prepare(MODEL, data.encodings)
    path.write_text("salience")
    with pytest.raises(TrothError, match="is not a file of scores"):
        Salience(source=str(path)).prepare(MODEL, data.encodings)
    path.write_text('{"id": "0"}\n')
    with pytest.raises(TrothError, match="entry 1 lacks id, spans or scores"):
        Salience(source=str(path)).prepare(MODEL, data.encodings)
    with pytest.raises(TrothError, match="call prepare"):
        Salience().penalty(
            Output(torch.zeros(1, 2), (torch.zeros(1, 1, 1, 3),)), rows_of(data, index=torch.tensor([0]))
        )


def test_the_command_takes_salience_and_lambda(films, tmp_path):
    from typer.testing import CliRunner

    from troth.cli import app
    from troth.sweep.bench import bench

    rows = [{"id": one.id, "text": one.text, "label": one.label} for one in films(24)]
    file = tmp_path / "films.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    common = [
        "--data",
        str(file),
        "--base",
        "scratch(layers=1, hidden=16, heads=2)",
        "--epochs",
        "1",
        "--cpu",
        "--json",
    ]

    def run(recipe, *options):
        return CliRunner().invoke(
            app, ["train", recipe, *common, "--out", str(tmp_path / "".join(options)[-6:]), *options]
        )

    done = run("masked + salience", "--salience", "tf_idf", "--lambda", "0.01")
    assert done.exit_code == 0, done.output
    spec = json.loads(done.stdout)["identity"]["recipe"]
    assert spec.endswith("+ salience(source='tf_idf', weight=0.01, variant='paper')")
    searched = json.loads(run("salience", "--lambda", "search").stdout)["lambda_search"]
    assert set(searched["flip_fraction"]) == {"0.01", "0.001", "0.0001"}
    # A run that explained the same examples is a salience, too.
    model = TINY.build(films(24), ("0", "1"), 0, None)
    folder = bench(model, films(24), ["attention"], ["comprehensiveness"], tmp_path / "run").folder
    stored = run("salience", "--salience", f"{folder}:attention")
    assert stored.exit_code == 0, stored.output
    assert ".jsonl" in json.loads(stored.stdout)["identity"]["recipe"]
    for options, message in [
        (["salience", "--lambda", "much"], "--lambda must be a number or search, not 'much'"),
        (["plain", "--lambda", "0.1"], "write 'plain + salience'"),
        (["salience", "--salience", f"{folder}:lime"], "is called 'lime'"),
        (["salience", "--salience", str(folder)], "contains 2 explanations; name one of attention, random"),
    ]:
        done = run(*options)
        assert isinstance(done.exception, TrothError)
        assert message in str(done.exception)
