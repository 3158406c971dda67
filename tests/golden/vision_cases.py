"""Vision encoders of generate_families.py: name -> model class, configuration, inputs."""

import transformers as hf

from generate_models import pixels

VISION = dict(hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=20, image_size=12, patch_size=4)


def deit(**changes):
    return hf.DeiTConfig(**{**VISION, **changes})


def dinov2(**changes):
    sizes = {key: value for key, value in VISION.items() if key != "intermediate_size"}
    return hf.Dinov2Config(**{**sizes, "mlp_ratio": 2, **changes})


def beit(**changes):
    return hf.BeitConfig(**{**VISION, **changes})


CASES = {
    "deit_classify": (hf.DeiTForImageClassification, lambda: deit(num_labels=3), lambda: pixels(12, 12, labels=3)),
    "deit_teacher": (hf.DeiTForImageClassificationWithTeacher, lambda: deit(num_labels=3, qkv_bias=False, num_channels=1),
                     lambda: pixels(12, 12, channels=1)),
    "deit_base": (lambda config: hf.DeiTModel(config, add_pooling_layer=False), deit, lambda: pixels(12, 12)),
    "dinov2_classify": (hf.Dinov2ForImageClassification, lambda: dinov2(num_labels=3), lambda: pixels(12, 12, labels=3)),
    "dinov2_resized": (hf.Dinov2ForImageClassification, lambda: dinov2(num_labels=3, use_swiglu_ffn=True),
                       lambda: pixels(20, 16, labels=3)),
    "dinov2_base": (hf.Dinov2Model, lambda: dinov2(qkv_bias=False), lambda: pixels(12, 12)),
    "beit_classify": (hf.BeitForImageClassification, lambda: beit(num_labels=3, use_relative_position_bias=True),
                      lambda: pixels(12, 12, labels=3)),
    "beit_shared": (hf.BeitForImageClassification,
                    lambda: beit(num_labels=3, use_shared_relative_position_bias=True, use_mean_pooling=False,
                                 use_absolute_position_embeddings=True), lambda: pixels(12, 12, labels=3)),
    "beit_base": (hf.BeitModel, lambda: beit(use_absolute_position_embeddings=True), lambda: pixels(12, 12)),
}
