"""Models with random weights and the inputs of one call. Knows torch, torchvision and transformers; what they
are compiled by is not its business.

Sizes are those of small servers: one image or one text, layers as wide as the published ones, a few of them.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch

Case = tuple[torch.nn.Module, tuple[torch.Tensor, ...]]
CASES: dict[str, Callable[[], Case]] = {}
WORDS = 1000
NOTHING = 1e-4  # of a weight
TEXT: dict[str, Any] = {
    "vocab_size": WORDS,
    "hidden_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 1024,
}
IMAGE: dict[str, Any] = {**TEXT, "image_size": 224, "patch_size": 32}
IMAGE.pop("vocab_size")


def _vision(name: str, size: int = 224, **kwargs: Any) -> Callable[[], Case]:
    def make() -> Case:
        import torchvision.models

        return getattr(torchvision.models, name)(weights=None, **kwargs), (torch.randn(1, 3, size, size),)

    return make


def _segmentation(name: str, size: int = 224) -> Callable[[], Case]:
    def make() -> Case:
        import torchvision.models.segmentation as models

        net = getattr(models, name)(weights=None, weights_backbone=None, num_classes=21)
        return net, (torch.randn(1, 3, size, size),)

    return make


def _detection(size: int = 224) -> Case:
    from torchvision.models.detection.backbone_utils import resnet_fpn_backbone

    return resnet_fpn_backbone(backbone_name="resnet18", weights=None), (torch.randn(1, 3, size, size),)


def _transformer(kind: str, config: dict[str, Any]) -> torch.nn.Module:
    """A model by its class, ``T5EncoderModel``; its settings are of the class ``T5Config``."""
    import transformers

    name = kind.partition("For")[0].removesuffix("Model").removesuffix("Encoder")
    settings = getattr(transformers, f"{name}Config")(**config)
    net: torch.nn.Module = getattr(transformers, kind)(settings)
    return net


def _text(kind: str, length: int = 128, **config: Any) -> Callable[[], Case]:
    return lambda: (_transformer(kind, config), (torch.randint(2, WORDS, (1, length)),))


def _image(kind: str, size: int = 224, **config: Any) -> Callable[[], Case]:
    return lambda: (_transformer(kind, config), (torch.randn(1, 3, size, size),))


def _mlp() -> Case:
    sizes = (256, 1024, 1024, 256, 10)
    layers = [m for a, b in pairwise(sizes) for m in (torch.nn.Linear(a, b), torch.nn.ReLU())]
    return torch.nn.Sequential(*layers[:-1]), (torch.randn(32, sizes[0]),)


def _whisper() -> Case:
    import transformers

    config = transformers.WhisperConfig(
        vocab_size=WORDS,
        d_model=256,
        encoder_layers=4,
        decoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=1024,
        max_source_positions=250,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    return transformers.WhisperModel(config).get_encoder(), (torch.randn(1, 80, 500),)


CASES |= {name: _vision(name) for name in ("resnet18", "resnet50", "mobilenet_v2", "mobilenet_v3_small")}
CASES |= {name: _vision(name) for name in ("efficientnet_b0", "convnext_tiny", "vit_b_32", "swin_t")}
CASES |= {"densenet121": _vision("densenet121"), "lraspp": _segmentation("lraspp_mobilenet_v3_large")}
CASES |= {
    "resnet18_fpn": _detection,
    "mlp": _mlp,
    "bert": _text("BertModel", **TEXT),
    "distilbert": _text("DistilBertModel", vocab_size=WORDS, dim=256, n_layers=4, n_heads=4, hidden_dim=1024),
    "gpt2": _text("GPT2Model", vocab_size=WORDS, n_embd=256, n_layer=4, n_head=4, use_cache=False),
    "llama": _text("LlamaForCausalLM", **TEXT, num_key_value_heads=2, use_cache=False),
    "t5": _text(
        "T5EncoderModel", vocab_size=WORDS, d_model=256, d_kv=64, d_ff=1024, num_layers=4, num_heads=4
    ),
    "clip_text": _text("CLIPTextModel", 77, **TEXT),
    "mamba": _text("MambaModel", 32, vocab_size=WORDS, hidden_size=128, num_hidden_layers=2, use_cache=False),
    "hf_vit": _image("ViTModel", **IMAGE),
    "segformer": _image(
        "SegformerModel",
        128,
        hidden_sizes=[32, 64, 128, 256],
        depths=[1, 1, 1, 1],
        num_attention_heads=[1, 2, 4, 8],
    ),
    "whisper_encoder": _whisper,
}


def _statistics(net: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
    """Sets the statistics of batch norms to those of a random batch. Where they stay 0 and 1, random weights
    make values smaller from layer to layer, and what deep models give is nearly 0."""
    norms = [m for m in net.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
    if not norms:
        return
    momenta = [m.momentum for m in norms]
    for m in norms:
        m.train()
        m.momentum = 1.0
    with torch.no_grad():
        net(*(torch.randn(4, *x.shape[1:]) for x in inputs))
    for m, momentum in zip(norms, momenta, strict=True):
        m.momentum = momentum


def _drawn(net: torch.nn.Module) -> None:
    """Draws weights anew that begin as nothing, as heads and scales of layers do before a training: whatever
    comes before them would not be seen in the result."""
    with torch.no_grad():
        for name, p in net.named_parameters():
            if not name.endswith("bias") and p.ndim > 1 and p.abs().max() < NOTHING:
                p.normal_(std=p.shape[-1] ** -0.5)


def case(name: str) -> Case:
    """The model in eval mode, with the inputs of a call; the same in every process."""
    torch.manual_seed(0)
    net, inputs = CASES[name]()
    _drawn(net.eval())
    _statistics(net, inputs)
    return net.eval(), inputs
