import pytest

from fakes import hf_model, tokenizer_for
from troth.core.errors import NoHeadError
from troth.models import load_model


def test_an_encoder_without_a_head_is_refused_by_an_error_of_its_own(tmp_path):
    hf_model(classes=2).base_model.save_pretrained(tmp_path)
    tokenizer_for("bert").save_pretrained(tmp_path)
    with pytest.raises(NoHeadError, match=r"no trained classification head .* fine-tune it"):
        load_model(str(tmp_path))
