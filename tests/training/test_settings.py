import pytest
import torch
import transformers

from fakes import hf_model
from troth.core import catalog
from troth.core.errors import TrothError
from troth.training import bases, presets, recipes
from troth.training.settings import Settings, build_optimizer, rate_factor, settings


@pytest.mark.parametrize(("warmup", "steps"), [(0.06, 100), (0.0, 7), (0.5, 11), (1.0, 5)])
def test_the_linear_schedule_is_the_usual_one(warmup, steps):
    import math

    parameter = torch.nn.Parameter(torch.zeros(1))
    adam = torch.optim.AdamW([parameter], lr=1.0)
    usual = transformers.get_linear_schedule_with_warmup(adam, math.ceil(steps * warmup), steps)
    for step in range(steps):
        assert rate_factor(Settings(warmup=warmup), step, steps, 0) == pytest.approx(usual.get_last_lr()[0])
        adam.step()
        usual.step()


def test_a_constant_schedule_stays_up():
    assert [rate_factor(Settings(schedule="constant", warmup=0.5), step, 4, 0) for step in range(4)] == [0, 0.5, 1, 1]


def test_a_schedule_over_examples_warms_up_for_nearly_all_of_the_training():
    # 1,600 examples in batches of 16 make 100 steps; 6 % of 1,600 are 96.
    over = Settings(epochs=1, schedule_over="examples")
    factors = [rate_factor(over, step, 100, 1600) for step in range(100)]
    assert factors[95] == pytest.approx(95 / 96)
    assert factors[99] == pytest.approx((1600 - 99) / (1600 - 96))


def test_decay_and_head_rate_go_to_the_right_parameters():
    model = hf_model("bert")
    chosen = Settings(learning_rate=1e-5, head_learning_rate=1e-4, weight_decay=0.1)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    found = {}
    for group in build_optimizer(model, chosen).param_groups:
        for parameter in group["params"]:
            found[names[id(parameter)]] = (group["full_rate"], group["weight_decay"])
    assert len(found) == len(names)
    assert found["classifier.weight"] == (1e-4, 0.1)
    assert found["classifier.bias"] == (1e-4, 0.0)
    assert found["bert.pooler.dense.weight"] == (1e-5, 0.1)
    assert found["bert.encoder.layer.0.attention.output.LayerNorm.weight"] == (1e-5, 0.0)
    assert found["bert.embeddings.word_embeddings.weight"] == (1e-5, 0.1)


def test_in_the_single_bilstm_only_the_attention_is_spared_from_decay():
    from troth.models.bilstm_attention import BilstmAttentionConfig, BilstmAttentionForSequenceClassification

    model = BilstmAttentionForSequenceClassification(BilstmAttentionConfig(embedding_size=3, hidden_size=2))
    adam = build_optimizer(model, settings(**presets.roar_bilstm("sst", pair=False)))
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    spared = {names[id(p)] for group in adam.param_groups if not group["weight_decay"] for p in group["params"]}
    assert spared == {f"bilstm.attention.{name}" for name in ("states.weight", "states.bias", "score.weight")}
    assert isinstance(adam, torch.optim.Adam)
    assert adam.defaults["amsgrad"] is True


def preset(paper, data, recipe="plain", base="roberta-base", pair=False):
    return settings(**presets.like(paper, recipes.build(recipe), bases.build(base), data, pair=pair))


@pytest.mark.parametrize(
    ("data", "epochs"),
    [("boolq", 15), ("cola", 15), ("cb", 50), ("rte", 30), ("imdb", 10), ("snli", 10), ("sst2", 10), ("babi2", 20)],
)
def test_fmm(data, epochs):
    found = preset("fmm", data, "masked")
    assert (found.learning_rate, found.batch_size, found.warmup) == (2e-5, 16, 0.06)
    # Liu et al. (2019), appendix C; the released code leaves the optimizer's own values.
    assert (found.weight_decay, found.betas, found.epsilon) == (0.1, (0.9, 0.98), 1e-6)
    assert (found.epochs, found.schedule_over) == (epochs, "batches")
    released = preset("fmm", data, "masked(variant=released)")
    assert (released.weight_decay, released.betas, released.epsilon) == (0.01, (0.9, 0.999), 1e-8)
    assert (released.epochs, released.schedule_over) == (epochs, "examples")


@pytest.mark.parametrize(
    ("paper", "data", "share"),
    [
        ("fmm", "sst2", 0.2), ("fmm", "babi1", 0.2), ("fmm", "imdb", 0.2),
        ("fmm", "snli", None), ("fmm", "anemia", None), ("fmm", "diabetes", None),
        ("roar", "babi1", 0.15), ("roar", "babi3", 0.15), ("roar", "sst", None), ("roar", "babi", None),
        ("saloss", "ag_news", 0.15), ("saloss", "semeval2017_4a", 0.25), ("saloss", "sst", None),
    ],
)  # fmt: skip
def test_the_share_of_train_each_paper_validates_on(paper, data, share):
    assert presets.held_out(paper, data) == share
    assert presets.held_out(None, data) is None


def test_a_data_set_that_knows_a_papers_splits_gives_them():
    official, papers = (catalog.build("data", name) for name in ("ag_news", "ag_news(as_in=saloss)"))
    assert presets.source_like("saloss", official) == papers != official
    assert presets.source_like("saloss", "ag_news") == papers
    assert presets.source_like("roar", official) == official
    assert presets.source_like(None, official) == official
    assert presets.held_out("saloss", papers) is None
    assert presets.held_out("saloss", official) is not None
    assert presets.source_like("saloss", "sst") == "sst"
    assert presets.source_like("saloss", "some/file.csv") == "some/file.csv"


def test_roar():
    lstm = preset("roar", "sst", base="bilstm_attention")
    assert (lstm.optimizer, lstm.amsgrad, lstm.learning_rate, lstm.weight_decay) == ("adam", True, 1e-3, 1e-5)
    assert (lstm.batch_size, lstm.epochs, lstm.metric, lstm.schedule) == (32, 8, "auroc", "constant")
    pair = preset("roar", "snli", base="bilstm_attention", pair=True)
    assert (pair.batch_size, pair.epochs, pair.metric, pair.no_decay) == (128, 25, "accuracy", ())
    assert (preset("roar", "babi1", base="bilstm_attention", pair=True).batch_size) == 50
    roberta = preset("roar", "babi1", pair=True)
    assert (roberta.epochs, roberta.batch_size, roberta.metric) == (8, 16, "accuracy")
    assert (preset("roar", "sst").epochs, preset("roar", "sst").metric) == (3, "auroc")


def test_soft_and_saloss():
    soft = preset("soft", "sst")
    assert (soft.learning_rate, soft.head_learning_rate, soft.batch_size, soft.epochs) == (1e-5, 1e-4, 8, 3)
    assert (soft.clip, soft.best_by) == (1.0, "loss")
    assert soft.warmup == pytest.approx(0.1 / 3)
    assert preset("soft", "evidence_inference").batch_size == 4
    saloss = preset("saloss", "multirc")
    assert (saloss.learning_rate, saloss.head_learning_rate, saloss.metric) == (2e-6, 2e-4, "macro_f1")
    assert preset("saloss", "semeval2017_4a").epochs == 20
    assert preset("saloss", "sst").epochs == 10
    for data, batch_size in {
        "sst": 8,
        "semeval2017_4a": 8,
        "ag_news": 4,
        "multirc": 4,
        "evidence_inference": 4,
    }.items():
        found = preset("saloss", data)
        assert (found.batch_size, found.weight_decay, found.betas, found.epsilon) == (batch_size, 0, (0.9, 0.999), 1e-6)


def test_bad_settings_are_one_line():
    for options, message in [
        ({"epoch": 3}, "no setting is called 'epoch'; did you mean epochs"),
        ({"epochs": 0}, "epochs must be 1 to 1,000,000, not 0"),
        ({"schedule": "cosine"}, "schedule must be linear or constant, not 'cosine'"),
        ({"learning_rate": "fast"}, "learning_rate must be a number, not 'fast'"),
        ({"warmup": 2}, "warmup must be a share between 0 and 1, not 2"),
    ]:
        with pytest.raises(TrothError, match=message):
            settings(**options)
    with pytest.raises(TrothError, match="no preset is called 'roa'; did you mean roar"):
        preset("roa", "sst")


def test_a_papers_rates_for_transformers_are_not_a_bilstms():
    base = bases.build("bilstm_attention")
    own = base.settings("sst", pair=False)
    for paper in ("fmm", "soft", "saloss"):
        found = presets.like(paper, recipes.build("plain"), base, "sst", pair=False)
        assert "learning_rate" not in found
        assert {**own, **found}["learning_rate"] == 1e-3
    assert presets.like("saloss", recipes.build("plain"), base, "sst", pair=False)["metric"] == "macro_f1"
