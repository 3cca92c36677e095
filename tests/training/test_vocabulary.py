import gzip
import json

import pytest
import torch

from troth.core.errors import TrothError
from troth.core.types import Example
from troth.training import bases
from troth.training.vocabulary import put_vectors, read_vectors, word_tokenizer


def test_words_are_cut_as_the_penn_treebank_does():
    tokenizer = word_tokenizer(["Don't miss the film's well-made ending!"])
    assert tokenizer.tokenize("Don't miss the film's well-made ending!") == [
        "do", "n't", "miss", "the", "film", "'s", "well-made", "ending", "!",
    ]  # fmt: skip
    # Text that was cut so already stays as it is.
    assert tokenizer.tokenize("do n't miss the film 's") == ["do", "n't", "miss", "the", "film", "'s"]


def test_special_ids_templates_and_unknown_words():
    tokenizer = word_tokenizer(["a good film", "a film"], minimum_count=2)
    assert [tokenizer.convert_tokens_to_ids(f"[{name}]") for name in ("PAD", "CLS", "EOS", "MASK", "UNK")] == [
        0,
        1,
        2,
        3,
        4,
    ]
    single, pair = tokenizer("a good film"), tokenizer("a film", "film")
    assert single["input_ids"] == [1, 5, 4, 6, 2]  # "good" is seen once
    assert pair["input_ids"] == [1, 5, 6, 2, 1, 6, 2]
    assert pair["token_type_ids"] == [0, 0, 0, 0, 1, 1, 1]
    assert tokenizer.mask_token_id == 3
    assert tokenizer.decode([5, 6]) == "a film"


def test_the_same_texts_give_the_same_ids_in_any_order():
    texts = ["b a", "c a", "b d"]
    assert word_tokenizer(texts).get_vocab() == word_tokenizer(texts[::-1]).get_vocab()


@pytest.mark.parametrize("form", ["glove", "gzip", "fasttext", "json", "wrapped"])
def test_vectors_are_read_from_the_usual_files(tmp_path, form):
    vectors = {"good": [0.5, -1.0], "film": [2.0, 0.25], "zebra": [9.0, 9.0]}
    lines = "".join(f"{word} {' '.join(map(str, vector))}\n" for word, vector in vectors.items())
    if form == "gzip":
        path = tmp_path / "v.txt.gz"
        with gzip.open(path, "wt") as file:
            file.write(lines)
    elif form in ("json", "wrapped"):
        path = tmp_path / "v.json"
        # A package that appends a norm to each vector and says how many numbers count.
        content = {"dimensions": 2, "vectors": {word: [*v, 1.5] for word, v in vectors.items()}}
        path.write_text(json.dumps(vectors if form == "json" else content))
    else:
        path = tmp_path / "v.txt"
        path.write_text(("3 2\n" if form == "fasttext" else "") + lines)
    assert read_vectors(path, ["good", "film", "absent", "3"]) == {"good": [0.5, -1.0], "film": [2.0, 0.25]}


def test_bad_vector_files_are_one_line(tmp_path):
    with pytest.raises(TrothError, match=r"there is no file nowhere\.txt of word vectors"):
        read_vectors("nowhere.txt", ["a"])
    (tmp_path / "v.txt").write_text("good 1 2\nfilm 1\n")
    with pytest.raises(TrothError, match=r"v\.txt: vectors of different sizes \(1, 2\)"):
        read_vectors(tmp_path / "v.txt", ["good", "film"])
    (tmp_path / "v.txt").write_text("good 1 2\nfilm one two\n")
    with pytest.raises(TrothError, match=r"v\.txt: line 2 has no numbers"):
        read_vectors(tmp_path / "v.txt", ["film"])


def test_known_words_get_their_vectors_and_others_are_as_widely_spread():
    tokenizer = word_tokenizer([" ".join(f"w{i}" for i in range(400)) + " good"])
    embedding = torch.nn.Embedding(len(tokenizer), 3, padding_idx=0)
    torch.manual_seed(0)
    vectors = {"good": [1.0, 2.0, 3.0], **{f"w{i}": [5.0 * (-1) ** i, 0.0, 0.0] for i in range(200)}}
    put_vectors(embedding, tokenizer, vectors, others="drawn")
    weight = embedding.weight.detach()
    assert weight[tokenizer.convert_tokens_to_ids("good")].tolist() == [1, 2, 3]
    assert weight[0].tolist() == [0, 0, 0]
    spread = torch.tensor(list(vectors.values())).std()
    drawn = weight[[tokenizer.convert_tokens_to_ids(f"w{i}") for i in range(200, 400)]]
    assert float(drawn.std()) == pytest.approx(float(spread), rel=0.1)


def test_words_without_a_vector_begin_at_zero_in_the_released_variant(tmp_path):
    examples = [Example("0", "good film", label=0), Example("1", "bad film", label=1)]
    (tmp_path / "v.json").write_text(json.dumps({"good": [1.0, 2.0], "film": [0.5, 1.0]}))
    vectors = str(tmp_path / "v.json")
    for variant, begins_at_zero in (("paper", False), ("released", True)):
        base = bases.build(f"bilstm_attention(hidden=4, vectors={vectors!r}, variant={variant})")
        model = base.build(examples, ("a", "b"), 0, None)
        ids = model.tokenizer.convert_tokens_to_ids(["[MASK]", "[UNK]", "bad", "film"])
        of_mask, of_unknown, of_bad, of_film = model.embedding_matrix[ids].tolist()
        assert [vector == [0, 0] for vector in (of_mask, of_unknown, of_bad)] == [begins_at_zero] * 3
        assert of_film == [0.5, 1.0]


def test_a_bilstm_takes_its_size_from_the_vectors(tmp_path):
    examples = [Example("0", "good film", label=0), Example("1", "bad film", label=1)]
    (tmp_path / "v.json").write_text(json.dumps({"good": [1.0, 2.0, 3.0], "film": [0.0, 1.0, 0.0]}))
    model = bases.build(f"bilstm_attention(hidden=4, vectors={str(tmp_path / 'v.json')!r})").build(
        examples, ("a", "b"), 0, None
    )
    assert model.embedding_size == 3
    good = model.tokenizer.convert_tokens_to_ids("good")
    assert model.embedding_matrix[good].tolist() == [1, 2, 3]
    (tmp_path / "v.json").write_text(json.dumps({"gut": [1.0]}))
    with pytest.raises(TrothError, match="no word of the training data has a vector in this file"):
        bases.build(f"bilstm_attention(vectors={str(tmp_path / 'v.json')!r})").build(examples, ("a", "b"), 0, None)


def test_bases_by_name():
    assert bases.build("scratch(layers=3)").layers == 3
    assert bases.build("owner/some-model").path == "owner/some-model"
    with pytest.raises(TrothError, match="hidden \\(10\\) must be a multiple of heads \\(4\\)"):
        bases.build("scratch(hidden=10)")
    with pytest.raises(TrothError, match="scratch: no option is called 'depth'"):
        bases.build("scratch(depth=3)")


def test_the_seed_draws_the_new_weights():
    examples = [Example("0", "good film", label=0), Example("1", "bad film", label=1)]
    for base in ("scratch(layers=1, hidden=8, heads=2)", "bilstm_attention(embedding=4, hidden=4)"):
        start = bases.build(base)
        one, same, other = (start.build(examples, ("a", "b"), seed, None).fingerprint for seed in (0, 0, 1))
        assert one == same != other
