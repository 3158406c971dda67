# %% slot
# %% torch
# from transformers import AutoModel, AutoTokenizer
#
# model = AutoModel.from_pretrained(folder)
# tokenizer = AutoTokenizer.from_pretrained(folder)
# outputs = model(**tokenizer("the cat sat by the door", return_tensors="pt"), output_attentions=True)
# outputs.attentions[0][0, 1]
# %%
import os
import tempfile

import heed

folder = os.path.join(tempfile.mkdtemp(), "tiny-bert")
tokenizer = heed.Tokenizer.train(["the cat sat on the mat", "the dog sat by the door"], "wordpiece:200", min_frequency=1)
heed.create_model({"model_type": "bert", "architectures": ["BertModel"], "hidden_size": 32, "num_hidden_layers": 2,
                   "num_attention_heads": 4, "intermediate_size": 64, "max_position_embeddings": 64,
                   "type_vocab_size": 2, "vocab_size": tokenizer.vocab_size}, seed=1, tokenizer=tokenizer).save(folder)

model = heed.load(folder)
text = "the cat sat by the door"
with heed.record() as recorded:
    output = model([model.tokenizer.encode(text)])
recorded.attention(layer=0, head=1).shape
# %% slot
# %%
print(f"{model.model_type}: {model.num_layers} layers, {model.num_heads} heads, {model.num_parameters} parameters")
name, parameter = next(model.named_parameters())
print("first of them:", name, list(parameter.shape))
print(model.tokenizer.tokenize(text, add_special_tokens=True), "->", list(output.last_hidden_state.shape))
model.save(folder + "-bf16", heed.bfloat16)
sizes = [os.path.getsize(os.path.join(each, "model.safetensors")) for each in (folder + "-bf16", folder)]
again = heed.load(folder + "-bf16")([model.tokenizer.encode(text)]).last_hidden_state
change = ((again - output.last_hidden_state) ** 2).sum() / (output.last_hidden_state ** 2).sum()
print(f"model.safetensors in bf16: {100 * sizes[0] / sizes[1]:.0f} % of the size, results within 2 %: {change.item() < 4e-4}")
# %% slot
# %%
recorded.view(model.tokenizer.labels(text))
# %%
model.explore(text)
