"""What a training switches on a GPU, and that it is put back."""

from dataclasses import replace

import pytest
import torch

from troth.training.fit import reproducible
from troth.training.settings import Settings


def switches():
    cuda = torch.backends.cuda
    fused = cuda.flash_sdp_enabled(), cuda.mem_efficient_sdp_enabled(), cuda.cudnn_sdp_enabled()
    return torch.are_deterministic_algorithms_enabled(), any(fused), cuda.math_sdp_enabled()


@pytest.mark.parametrize(
    ("device", "deterministic", "inside"),
    [("cuda", True, (True, False, True)), ("cuda", False, None), ("cpu", True, None)],
)
def test_on_a_gpu_attention_adds_up_in_one_order(device, deterministic, inside):
    before = switches()
    settings = replace(Settings(), deterministic=deterministic)
    with reproducible(settings, torch.device(device)):
        assert switches() == (inside or before)
    assert switches() == before
    with pytest.raises(RuntimeError), reproducible(settings, torch.device(device)):
        raise RuntimeError
    assert switches() == before
