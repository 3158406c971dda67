"""Small random Hugging Face models of one family each: generate_families.py [NAME…]. Every case is seeded by its name."""

import sys
import zlib

import transformers as hf

from common import seed
from generate_models import VOCAB, causal, classified, tokens, write

DECODER = dict(vocab_size=VOCAB, hidden_size=16, intermediate_size=28, num_hidden_layers=3, num_attention_heads=4,
               num_key_value_heads=2, max_position_embeddings=32, pad_token_id=0)


# name: model class, configuration, inputs
CASES = {
    "qwen2": (hf.Qwen2ForCausalLM,
              lambda: hf.Qwen2Config(**DECODER, use_sliding_window=True, sliding_window=3, max_window_layers=1), causal),
    "qwen2_classify": (hf.Qwen2ForSequenceClassification, lambda: hf.Qwen2Config(**DECODER, num_labels=3),
                       lambda: classified(3)),
    "qwen2_base": (hf.Qwen2Model, lambda: hf.Qwen2Config(**DECODER, tie_word_embeddings=True), tokens),
}


if __name__ == "__main__":
    hf.utils.logging.disable_progress_bar()
    for name in sys.argv[1:] or CASES:
        seed(zlib.crc32(name.encode()))
        write(name, *CASES[name])
