"""One model used by several threads and wrappers at once: everybody gets what they would get alone."""

import copy
import gc
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

import fakes
import troth
from kinds import state_of
from troth.models import _changes
from troth.models.encoder import Encoder

TEXTS = ["a good film", "my new phone is fast , bright and a joy to use", "awful", "the soup was cold"]
EXPLAINERS = ["gradient", "attention", "leave_one_out", "deep_lift", "glob_enc"]
ROUNDS = 6


@pytest.fixture
def hurried():
    """Threads take turns so often that each sees the others' changes, unless a lock keeps them out."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def network():
    """In training mode with dropout, and with the fused attention: there is much to change and to put back."""
    model = copy.deepcopy(fakes.hf_model())
    return model.train()


def explained(wrapper, explainer):
    return [attribution.scores.tobytes() for attribution in troth.explain(wrapper, TEXTS, explainer, target=0)]


def at_once(wrappers):
    """Every explainer several times, four threads, on the wrappers in turn."""
    work = [(wrappers[turn % len(wrappers)], explainer) for turn in range(ROUNDS) for explainer in EXPLAINERS]
    with ThreadPoolExecutor(4) as pool:
        futures = [(explainer, pool.submit(explained, wrapper, explainer)) for wrapper, explainer in work]
        return [(explainer, future.result()) for explainer, future in futures]


@pytest.mark.parametrize("wrappers", [1, 2])
def test_threads_get_what_sequential_calls_get_bit_for_bit(wrappers, hurried):
    model = network()
    made = [Encoder(model, fakes.wordpiece(), name=str(number)) for number in range(wrappers)]
    before = state_of(model)
    expected = {explainer: explained(made[0], explainer) for explainer in EXPLAINERS}
    for explainer, scores in at_once(made):
        assert scores == expected[explainer], explainer
    assert state_of(model) == before


def test_the_thread_test_would_notice_a_missing_lock(hurried, monkeypatch):
    class Open:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

    model = network()
    one = Encoder(model, fakes.wordpiece(), name="one")
    two = Encoder(model, fakes.wordpiece(), name="two")
    expected = {explainer: explained(one, explainer) for explainer in EXPLAINERS}
    monkeypatch.setattr("troth.models.encoder.lock_of", lambda _: Open())
    wrong = False
    for _ in range(20):
        try:
            wrong = wrong or any(scores != expected[explainer] for explainer, scores in at_once([one, two]))
        except Exception:  # whatever a model half changed runs into
            wrong = True
        if wrong:
            break
    assert wrong


def test_two_heads_on_one_encoder_share_a_lock():
    one, other = network(), network()
    assert _changes.lock_of(one) is _changes.lock_of(one) is not _changes.lock_of(other)
    other.bert = one.bert
    assert _changes.lock_of(one) is _changes.lock_of(other)


def test_a_lock_goes_with_its_model():
    model = network()
    _changes.lock_of(model)
    body = weakref.ref(model.base_model)
    assert body() in _changes._LOCKS
    del model
    gc.collect()
    assert body() is None


def test_a_failure_leaves_the_model_free_for_others():
    wrapper = Encoder(network(), fakes.wordpiece(), name="one")
    with pytest.raises(RuntimeError, match="stop"), wrapper.at_rest(attentions=True):
        raise RuntimeError("stop")
    done = []
    thread = threading.Thread(target=lambda: done.append(explained(wrapper, "attention")))
    thread.start()
    thread.join(timeout=30)
    assert done


@pytest.mark.parametrize("kind", ["encoder", "prompted"])
def test_the_tokenizers_own_settings_survive(kind):
    family = "bert" if kind == "encoder" else "llama"
    tokenizer = copy.deepcopy(fakes.tokenizer_for("bert") if kind == "encoder" else fakes.causal_tokenizer(family))
    backend = tokenizer.backend_tokenizer
    backend.enable_truncation(5, stride=1, strategy="only_first", direction="left")
    backend.enable_padding(length=9, pad_id=0, pad_token=tokenizer.convert_ids_to_tokens(0), direction="left")
    before = (backend.truncation, backend.padding, backend.encode_special_tokens)
    if kind == "encoder":
        model = troth.load_model(fakes.hf_model(), tokenizer=tokenizer)
    else:
        options = {"prompt": fakes.PROMPTS["llama"], "class_words": fakes.CLASS_WORDS, "mask_text": " a"}
        model = troth.load_model(fakes.causal_model("llama"), tokenizer=tokenizer, **options)
    (attribution,) = troth.explain(model, TEXTS[1], "leave_one_out")
    assert len(attribution.scores) == len(TEXTS[1].split())  # neither cut nor padded by those settings
    assert (backend.truncation, backend.padding, backend.encode_special_tokens) == before


def test_one_tokenizer_of_two_models_in_threads(hurried):
    """A tokenizer whose settings change while another thread encodes raises "Already borrowed"."""
    tokenizer = copy.deepcopy(fakes.tokenizer_for("bert"))
    tokenizer.backend_tokenizer.enable_truncation(5)
    before = tokenizer.backend_tokenizer.truncation
    models = [Encoder(fakes.hf_model(seed=seed), tokenizer, name=str(seed)) for seed in range(4)]
    texts = [text * 20 for text in TEXTS]

    def encoded(model):
        return [[encoding.ids.tolist() for encoding in model.encode(_examples(texts))] for _ in range(20)]

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(encoded, models))
    assert all(one == found[0] for one in found)
    assert len(found[0][0][1]) > 5
    assert tokenizer.backend_tokenizer.truncation == before


def _examples(texts):
    return [troth.Example(str(number), text) for number, text in enumerate(texts)]
