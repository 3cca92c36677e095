"""The placement of a network's weights: on one device, on several, or offloaded to the CPU or disk (by accelerate).

One rule holds for all: inputs go to the device of the word embeddings, and outputs are brought back there. Offloaded
weights are on the meta device until the forward pass of their layer needs them.
"""

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn

from troth.core.errors import TrothError

OPTIONS = ("device_map", "offload_folder", "max_memory", "quantization")  # of load_model
_BITS = {"8bit": {"load_in_8bit": True}, "4bit": {"load_in_4bit": True}}


def loading_options(placing: Mapping[str, Any], device: Any) -> dict[str, Any]:
    """The arguments of from_pretrained for these options of `load_model`; an error for options that exclude each
    other.
    """
    given = {name: value for name, value in placing.items() if value is not None}
    if unknown := given.keys() - set(OPTIONS):
        raise TrothError(f"no option of load_model is called {sorted(unknown)[0]}")
    if "device_map" in given and device is not None:
        raise TrothError(
            f"device={device} places the whole model and device_map places its parts; pass only one of them"
        )
    if "device_map" not in given and (more := given.keys() & {"offload_folder", "max_memory"}):
        raise TrothError(f'{sorted(more)[0]} needs device_map, such as device_map="auto"')
    if "device_map" in given and find_spec("accelerate") is None:
        raise TrothError("device_map places the parts of a model with accelerate; pip install accelerate")
    if (kind := given.pop("quantization", None)) is not None:
        given["quantization_config"] = _quantization(kind)
    return given


def _quantization(kind: Any) -> Any:
    """A quantization configuration, given as an object of transformers or by a name for bitsandbytes."""
    if hasattr(kind, "quant_method"):
        return kind
    if not isinstance(kind, str) or kind not in _BITS:
        raise TrothError(f"quantization must be 4bit, 8bit or a quantization config of transformers, not {kind!r}")
    if find_spec("bitsandbytes") is None:
        raise TrothError(f"quantization {kind} needs bitsandbytes, which is not installed; pip install bitsandbytes")
    from transformers import BitsAndBytesConfig

    return BitsAndBytesConfig(**_BITS[kind])  # type: ignore[no-untyped-call]


def is_placed(network: Any) -> bool:
    """Whether accelerate or a quantization has placed the weights, which then must not be moved."""
    return is_split(network) or bool(getattr(network, "is_quantized", False))


def is_split(network: Any) -> bool:
    """Whether accelerate moves inputs or weights of this network during the forward pass."""
    return any("_hf_hook" in vars(module) for module in network.modules())


def keep_gradients(network: Any) -> None:
    """Keeps bitsandbytes (0.50) from repacking 4-bit weights for a CPU, which it does in the first forward pass without
    gradients: it fails for layers whose width is not a multiple of 32, and later gradients would be wrong without an
    error.
    """
    for module in network.modules():
        if _repacks(module):
            module.support_avx512bf16_for_cpu = False


def require_readable(network: Any, name: str) -> None:
    """Refuses 4-bit weights in memory that bitsandbytes has repacked for a CPU, or would repack."""
    if any(map(_repacks, network.modules())):
        raise TrothError(
            f"{name} has 4-bit weights on the CPU, which bitsandbytes repacks when they are first used, so that "
            'gradients through them are wrong; let troth load the model: load_model("FOLDER", quantization="4bit")'
        )


def _repacks(module: nn.Module) -> bool:
    """Whether this is a layer with 4-bit weights that are repacked on a CPU."""
    if not getattr(module, "support_avx512bf16_for_cpu", False):
        return False
    weight = getattr(module, "weight", None)
    return isinstance(weight, Tensor) and weight.device.type == "cpu"


def input_device(network: Any) -> torch.device:
    """The device for token ids and word vectors."""
    try:
        layer = network.get_input_embeddings()
    except NotImplementedError:  # raised by CANINE, which hashes characters
        layer = None
    # Perceiver returns its latent vectors, a parameter.
    for module in (each for each in (layer, network) if isinstance(each, nn.Module)):
        for hook in _hooks(module):
            if (found := getattr(hook, "execution_device", None)) is not None:
                return torch.device(found)
        if (weight := next(iter(module.parameters(recurse=False)), None)) is not None and not weight.is_meta:
            return torch.device(weight.device)
    device: torch.device = network.device
    return device


def weight_of(module: nn.Module, name: str = "weight") -> Tensor | None:
    """A weight of one module, fetched if it is offloaded; None if there is none."""
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor) or not weight.is_meta:
        return weight if isinstance(weight, Tensor) else None
    for hook in _hooks(module):
        if (offloaded := getattr(hook, "weights_map", None)) is not None:
            fetched: Tensor = offloaded[name].to(getattr(hook, "execution_device", "cpu"), weight.dtype)
            return fetched
    raise TrothError(
        "some weights are offloaded, not in memory, and nothing says where; load the model with load_model"
    )


def weight_named(network: nn.Module, name: str) -> Tensor:
    """A weight of the whole network by its name in the state dict."""
    path, _, own = name.rpartition(".")
    weight = weight_of(network.get_submodule(path), own)
    assert weight is not None, name
    return weight.cpu()


def _hooks(module: nn.Module) -> Iterator[Any]:
    """The accelerate hooks of one module."""
    hook = vars(module).get("_hf_hook")
    if hook is not None:
        yield from getattr(hook, "hooks", (hook,))
