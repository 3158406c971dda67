"""Small random Hugging Face models of one family each: generate_families.py [NAME…]. Every case is seeded by its name."""

import sys
import zlib

import transformers as hf

import encoder_cases
import vision_cases
from common import seed
from generate_models import VOCAB, causal, classified, tagged, tokens, write

DECODER = dict(vocab_size=VOCAB, hidden_size=16, intermediate_size=28, num_hidden_layers=3, num_attention_heads=4,
               num_key_value_heads=2, max_position_embeddings=32, pad_token_id=0)


GPT2 = dict(vocab_size=VOCAB, n_embd=16, n_layer=2, n_head=4, n_positions=32)


def tagged_tokens(labels):
    """Labels per token without token_type_ids."""
    return {key: value for key, value in tagged(labels).items() if key != "token_type_ids"}


def falcon(**changes):
    return hf.FalconConfig(**{**dict(vocab_size=VOCAB, hidden_size=16, num_hidden_layers=2, num_attention_heads=4),
                              **changes})


def neox(**changes):
    return hf.GPTNeoXConfig(**{**dict(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                                      intermediate_size=28, max_position_embeddings=32, rotary_pct=0.5), **changes})


def opt(**changes):
    return hf.OPTConfig(**{**dict(vocab_size=VOCAB, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, ffn_dim=28,
                                  max_position_embeddings=24, word_embed_proj_dim=16, pad_token_id=0), **changes})


# name: model class, configuration, inputs
CASES = {
    "qwen2": (hf.Qwen2ForCausalLM,
              lambda: hf.Qwen2Config(**DECODER, use_sliding_window=True, sliding_window=3, max_window_layers=1), causal),
    "qwen2_classify": (hf.Qwen2ForSequenceClassification, lambda: hf.Qwen2Config(**DECODER, num_labels=3),
                       lambda: classified(3)),
    "qwen2_tag": (hf.Qwen2ForTokenClassification, lambda: hf.Qwen2Config(**DECODER, num_labels=3), lambda: tagged_tokens(3)),
    "bloom": (hf.BloomForCausalLM, lambda: hf.BloomConfig(vocab_size=VOCAB, hidden_size=16, n_layer=2, n_head=4), causal),
    "bloom_heads": (hf.BloomForSequenceClassification,
                    lambda: hf.BloomConfig(vocab_size=VOCAB, hidden_size=18, n_layer=2, n_head=3, num_labels=4,
                                           pad_token_id=0), lambda: classified(4)),
    "exaone4": (hf.Exaone4ForCausalLM,
                lambda: hf.Exaone4Config(**DECODER, head_dim=4, sliding_window=3, sliding_window_pattern=2), causal),
    "exaone4_global": (hf.Exaone4ForCausalLM, lambda: hf.Exaone4Config(**DECODER, head_dim=4, sliding_window=None, layer_types=["full_attention"] * 3), causal),
    "falcon_multi_query": (hf.FalconForCausalLM, lambda: falcon(bias=True), causal),
    "falcon_grouped": (hf.FalconForCausalLM,
                       lambda: falcon(new_decoder_architecture=True, num_kv_heads=2, ffn_hidden_size=20), causal),
    "falcon_alibi": (hf.FalconForCausalLM, lambda: falcon(multi_query=False, parallel_attn=False, alibi=True, bias=True),
                     causal),
    "falcon_alibi_heads": (hf.FalconForCausalLM, lambda: falcon(hidden_size=24, num_attention_heads=12, alibi=True), causal),
    "gpt2_classify": (hf.GPT2ForSequenceClassification,
                      lambda: hf.GPT2Config(**GPT2, num_labels=3, pad_token_id=0), lambda: classified(3)),
    "gpt2_tag": (hf.GPT2ForTokenClassification, lambda: hf.GPT2Config(**GPT2, num_labels=4), lambda: tagged_tokens(4)),
    "gpt_neox_tag": (hf.GPTNeoXForTokenClassification, lambda: neox(num_labels=3), lambda: tagged_tokens(3)),
    "gemma": (hf.GemmaForCausalLM, lambda: hf.GemmaConfig(**DECODER, head_dim=6), causal),
    "gemma2": (hf.Gemma2ForCausalLM,
               lambda: hf.Gemma2Config(**DECODER, head_dim=6, sliding_window=3, query_pre_attn_scalar=10,
                                       attn_logit_softcapping=5.0, final_logit_softcapping=3.0), causal),
    "gemma3": (hf.Gemma3ForCausalLM,
               lambda: hf.Gemma3TextConfig(**DECODER, head_dim=6, sliding_window=3, query_pre_attn_scalar=10,
                                           sliding_window_pattern=2), causal),
    "gpt_neox": (hf.GPTNeoXForCausalLM, lambda: neox(), causal),
    "gpt_neox_sequential": (hf.GPTNeoXForCausalLM,
                            lambda: neox(use_parallel_residual=False, attention_bias=False, hidden_act="relu"), causal),
    "gptj": (hf.GPTJForCausalLM, lambda: hf.GPTJConfig(vocab_size=VOCAB, n_embd=32, n_layer=2, n_head=4, n_positions=32,
                                                       rotary_dim=4, n_inner=28), causal),
    "granite": (hf.GraniteForCausalLM,
                lambda: hf.GraniteConfig(**DECODER, embedding_multiplier=3.0, residual_multiplier=0.3,
                                         attention_multiplier=0.4, logits_scaling=2.5, attention_bias=True), causal),
    "llama_yarn": (hf.LlamaForCausalLM,
                   lambda: hf.LlamaConfig(**{**DECODER, "hidden_size": 32},
                                          rope_parameters={"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0,
                                                           "original_max_position_embeddings": 8}), causal),
    "llama_dynamic": (hf.LlamaForCausalLM,
                      lambda: hf.LlamaConfig(**DECODER, rope_parameters={"rope_type": "dynamic", "rope_theta": 10000.0,
                                                                         "factor": 2.0}), causal),
    "llama_dynamic_beyond": (hf.LlamaForCausalLM,
                             lambda: hf.LlamaConfig(**{**DECODER, "max_position_embeddings": 5},
                                                    rope_parameters={"rope_type": "dynamic", "rope_theta": 10000.0,
                                                                     "factor": 4.0}), causal),
    "olmo2": (hf.Olmo2ForCausalLM, lambda: hf.Olmo2Config(**DECODER), causal),
    "opt": (hf.OPTForCausalLM, lambda: opt(), causal),
    "opt_projected": (hf.OPTForCausalLM, lambda: opt(word_embed_proj_dim=10, do_layer_norm_before=False), causal),
    "opt_classify": (hf.OPTForSequenceClassification, lambda: opt(num_labels=3), lambda: classified(3)),
    "phi": (hf.PhiForCausalLM, lambda: hf.PhiConfig(**{**DECODER, "hidden_size": 32}), causal),
    "phi_norms": (hf.PhiForCausalLM,
                  lambda: hf.PhiConfig(**{**DECODER, "hidden_size": 32}, qk_layernorm=True, partial_rotary_factor=0.25),
                  causal),
    "phi3": (hf.Phi3ForCausalLM, lambda: hf.Phi3Config(**DECODER, sliding_window=3), causal),
    "phi3_long": (hf.Phi3ForCausalLM,
                  lambda: hf.Phi3Config(**{**DECODER, "original_max_position_embeddings": 4},
                                        rope_parameters={"rope_type": "longrope", "rope_theta": 10000.0,
                                                         "short_factor": [1.0, 1.5], "long_factor": [2.0, 4.5],
                                                         "original_max_position_embeddings": 4}), causal),
    "qwen3": (hf.Qwen3ForCausalLM, lambda: hf.Qwen3Config(**DECODER, head_dim=6, attention_bias=True), causal),
    "smollm3": (hf.SmolLM3ForCausalLM, lambda: hf.SmolLM3Config(**DECODER, no_rope_layer_interval=2, bos_token_id=1,
                                                                eos_token_id=2), causal),
    "starcoder2": (hf.Starcoder2ForCausalLM, lambda: hf.Starcoder2Config(**DECODER, sliding_window=3), causal),
    "qwen2_base": (hf.Qwen2Model, lambda: hf.Qwen2Config(**DECODER, tie_word_embeddings=True), tokens),
    **encoder_cases.CASES,
    **vision_cases.CASES,
}


if __name__ == "__main__":
    hf.utils.logging.disable_progress_bar()
    for name in sys.argv[1:] or CASES:
        seed(zlib.crc32(name.encode()))
        write(name, *CASES[name], attentions=name not in encoder_cases.WITHOUT_ATTENTIONS,
              whole=encoder_cases.WHOLE.get(name))
