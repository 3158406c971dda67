# %% slot
# %% torch
# vectors = encoder(passages)                  # [N, d], length 1
# scores = vectors @ encoder([question])[0]    # every passage against the question
# best = scores.topk(1).indices
# %%
import pathlib
import tempfile
import time

import heed
from heed.notebook import plot

folder = pathlib.Path(tempfile.mkdtemp())
(folder / "notes.txt").write_text("Cats sleep in the sun.\n\n우리는 역사를 배운다.")
# An encoder with fresh weights: enough to make an index; words are found without one.
tokenizer = heed.Tokenizer.train(["cats sleep in the sun", "우리는 역사를 배운다"], "wordpiece:200", min_frequency=1)
config = {"model_type": "bert", "architectures": ["BertModel"], "hidden_size": 32, "num_hidden_layers": 1,
          "num_attention_heads": 4, "intermediate_size": 64, "max_position_embeddings": 64, "type_vocab_size": 2,
          "vocab_size": tokenizer.vocab_size}
heed.create_model(config, seed=1, tokenizer=tokenizer).save(folder / "encoder")
heed.build_index(folder / "notes.txt", folder / "notes.heed-index", folder / "encoder", chunk_tokens=8, overlap_tokens=0)
index = heed.SearchIndex(folder / "notes.heed-index")
# %% slot
# %%
for query in ("역사", "sleep"):
    print(f"{query} → {index.search(query, mode='lexical', top_k=1)[0]['text']}")
# %% slot
# %%
sizes = {"model_type": "t5", "d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0}
reader = heed.create_model({**sizes, "vocab_size": tokenizer.vocab_size}, seed=1, tokenizer=tokenizer).eval()
answer = index.ask("Where do cats sleep?", reader, reader="fid", top_k=2, max_new_tokens=4, attention=True)
print(len(answer["sources"]), [source["attention"] > 0 for source in answer["sources"]])
# %% slot
# %%
for passages in (5, 10, 20, 40):
    print(f"{passages:2}: {passages * 64 * 64:7} {(passages * 64) ** 2:7}")
# %% slot
# %%
def milliseconds(passages, joined):
    """To read passages of 64 tokens, each by itself or joined to one long input."""
    shape = (1, passages * 64) if joined else (passages, 64)
    begin = time.perf_counter()
    with heed.no_grad():
        reader(heed.ones(*shape, dtype=heed.int64), decoder_input_ids=[[0]], passages=1 if joined else passages)
    return 1000 * (time.perf_counter() - begin)


counts = (5, 10, 20, 40)
plot({name: (counts, [min(milliseconds(n, joined) for _ in range(3)) for n in counts])
      for name, joined in (("joined", True), ("FiD", False))}, x_title="Passages", y_title="ms")
