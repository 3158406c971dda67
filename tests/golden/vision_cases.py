"""Vision encoders of generate_families.py: name -> model class, configuration, inputs."""

import transformers as hf

from generate_models import VOCAB, pixels, tokens

VISION = dict(hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=20, image_size=12, patch_size=4)


def deit(**changes):
    return hf.DeiTConfig(**{**VISION, **changes})


def dinov2(**changes):
    sizes = {key: value for key, value in VISION.items() if key != "intermediate_size"}
    return hf.Dinov2Config(**{**sizes, "mlp_ratio": 2, **changes})


def registers(**changes):
    sizes = {key: value for key, value in VISION.items() if key != "intermediate_size"}
    return hf.Dinov2WithRegistersConfig(**{**sizes, "mlp_ratio": 2, "num_register_tokens": 3, **changes})


def beit(**changes):
    return hf.BeitConfig(**{**VISION, **changes})


def swin(**changes):
    return hf.SwinConfig(**{**dict(image_size=16, patch_size=2, embed_dim=8, depths=[2, 1], num_heads=[2, 4], window_size=3,
                                   mlp_ratio=2.5), **changes})


TOWER = dict(hidden_size=12, intermediate_size=20, num_hidden_layers=2, num_attention_heads=3)


def text_tower(config, **changes):
    return config(**{**TOWER, "vocab_size": VOCAB, "max_position_embeddings": 10, "bos_token_id": 1, "eos_token_id": 2,
                     "pad_token_id": 0, **changes})


def image_tower(config, **changes):
    return config(**{**TOWER, "hidden_size": 16, "num_attention_heads": 2, "image_size": 8, "patch_size": 4, **changes})


def clip(text={}, image={}, **changes):
    return hf.CLIPConfig(text_config=text_tower(hf.CLIPTextConfig, **text).to_dict(),
                         vision_config=image_tower(hf.CLIPVisionConfig, **image).to_dict(), projection_dim=7, **changes)


def siglip(text={}, image={}, **changes):
    sizes = {"projection_size": 16, **text}
    return hf.SiglipConfig(text_config=text_tower(hf.SiglipTextConfig, **sizes).to_dict(),
                           vision_config=image_tower(hf.SiglipVisionConfig, **image).to_dict(), **changes)


def ended(end, **sizes):
    """Texts that end in `end`, in front of the padding."""
    inputs = tokens(**sizes)
    for row, length in zip(inputs["input_ids"], inputs["attention_mask"].sum(1)):
        row[length - 1] = end
    return inputs


def matched(texts, height=8, width=8):
    return {**texts, **pixels(height, width), "return_loss": True}


CASES = {
    "swin_classify": (hf.SwinForImageClassification, lambda: swin(num_labels=3), lambda: pixels(16, 16, labels=3)),
    # Grids that windows and the merging do not divide, and an image that patches do not.
    "swin_odd": (hf.SwinForImageClassification,
                 lambda: swin(num_labels=3, qkv_bias=False, hidden_act="relu", depths=[2, 2, 1], num_heads=[1, 2, 4],
                              image_size=22, window_size=2, num_channels=1, layer_norm_eps=1e-3),
                 lambda: pixels(21, 19, 1, labels=3)),
    "swin_base": (hf.SwinModel, lambda: swin(use_absolute_embeddings=True, window_size=4), lambda: pixels(16, 16)),
    "clip": (hf.CLIPModel, clip, lambda: matched(tokens())),
    "clip_end": (hf.CLIPModel,
                 lambda: clip(dict(eos_token_id=5, hidden_act="gelu"), dict(hidden_act="relu", image_size=10, num_channels=3),
                              logit_scale_init_value=1.0), lambda: matched(ended(5), 10, 10)),
    "clip_text": (hf.CLIPTextModel, lambda: text_tower(hf.CLIPTextConfig), tokens),
    "clip_text_projection": (hf.CLIPTextModelWithProjection, lambda: text_tower(hf.CLIPTextConfig, projection_dim=5), tokens),
    "clip_vision": (hf.CLIPVisionModel, lambda: image_tower(hf.CLIPVisionConfig), lambda: pixels(8, 8)),
    "clip_vision_projection": (hf.CLIPVisionModelWithProjection,
                               lambda: image_tower(hf.CLIPVisionConfig, projection_dim=5), lambda: pixels(8, 8)),
    "clip_classify": (hf.CLIPForImageClassification, lambda: clip(num_labels=3), lambda: pixels(8, 8, labels=3)),
    "siglip": (hf.SiglipModel, siglip, lambda: matched(tokens())),
    # Patches that leave a strip of the image out.
    "siglip_strip": (hf.SiglipModel, lambda: siglip(image=dict(image_size=11, hidden_act="gelu")),
                     lambda: matched({"input_ids": tokens()["input_ids"]}, 11, 11)),
    "siglip_text": (hf.SiglipTextModel, lambda: text_tower(hf.SiglipTextConfig), tokens),
    "siglip_vision": (hf.SiglipVisionModel, lambda: image_tower(hf.SiglipVisionConfig), lambda: pixels(8, 8)),
    "siglip_classify": (hf.SiglipForImageClassification, lambda: siglip(num_labels=3), lambda: pixels(8, 8, labels=3)),
    "deit_classify": (hf.DeiTForImageClassification, lambda: deit(num_labels=3), lambda: pixels(12, 12, labels=3)),
    "deit_teacher": (hf.DeiTForImageClassificationWithTeacher, lambda: deit(num_labels=3, qkv_bias=False, num_channels=1),
                     lambda: pixels(12, 12, channels=1)),
    "deit_base": (lambda config: hf.DeiTModel(config, add_pooling_layer=False), deit, lambda: pixels(12, 12)),
    "dinov2_classify": (hf.Dinov2ForImageClassification, lambda: dinov2(num_labels=3), lambda: pixels(12, 12, labels=3)),
    "dinov2_resized": (hf.Dinov2ForImageClassification, lambda: dinov2(num_labels=3, use_swiglu_ffn=True),
                       lambda: pixels(20, 16, labels=3)),
    "dinov2_base": (hf.Dinov2Model, lambda: dinov2(qkv_bias=False), lambda: pixels(12, 12)),
    "dinov2_registers": (hf.Dinov2WithRegistersForImageClassification, lambda: registers(num_labels=3),
                         lambda: pixels(12, 12, labels=3)),
    "beit_classify": (hf.BeitForImageClassification, lambda: beit(num_labels=3, use_relative_position_bias=True),
                      lambda: pixels(12, 12, labels=3)),
    "beit_shared": (hf.BeitForImageClassification,
                    lambda: beit(num_labels=3, use_shared_relative_position_bias=True, use_mean_pooling=False,
                                 use_absolute_position_embeddings=True), lambda: pixels(12, 12, labels=3)),
    "beit_base": (hf.BeitModel, lambda: beit(use_absolute_position_embeddings=True), lambda: pixels(12, 12)),
}
