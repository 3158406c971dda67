"""Random models and inputs that heed and its peers share, made once: assets.py FOLDER HEED NAME…"""
import json, os, shutil, subprocess, sys
import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

FOLDER, HEED = sys.argv[1], sys.argv[2]
SHARED = os.environ.get("HEED_SHARED", "")


def place(*parts):
    return os.path.join(FOLDER, *parts)


def save(name, **tensors):
    from safetensors.numpy import save_file
    save_file({key: np.ascontiguousarray(value) for key, value in tensors.items()}, place(name + ".safetensors"))


def numbers():
    return np.random.default_rng(0)


def keep(model, name):
    model.save_pretrained(place(name))


def attention(length):
    random = numbers()
    save(f"attention-{length}", **{name: random.uniform(-1, 1, (1, 12, length, 64)).astype(np.float32)
                                   for name in ("q", "k", "v", "dout")})


def gpt2(name, batch, length, vocabulary, width, layers, heads, context):
    import torch, transformers
    torch.manual_seed(0)
    config = transformers.GPT2Config(vocab_size=vocabulary, n_embd=width, n_layer=layers, n_head=heads,
                                     n_positions=context, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
                                     bos_token_id=vocabulary - 1, eos_token_id=vocabulary - 1)
    keep(transformers.GPT2LMHeadModel(config), name)
    ids = numbers().integers(0, vocabulary - 32, (batch, length))
    save(name, input_ids=ids, labels=ids)


def gpt2_tokenizer(name):
    """A vocabulary of GPT-2's size for GGUF: 256 bytes, 50,000 pairs of them, and the end."""
    printable = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    letters = [chr(b) for b in printable] + [chr(256 + i) for i in range(256 - len(printable))]
    pairs = [(a, b) for a in letters for b in letters][:50000]
    tokens = letters + [a + b for a, b in pairs] + ["<|endoftext|>"]
    json.dump({token: i for i, token in enumerate(tokens)}, open(place(name, "vocab.json"), "w"))
    with open(place(name, "merges.txt"), "w", encoding="utf8") as file:
        file.write("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in pairs))
    json.dump({"tokenizer_class": "GPT2Tokenizer"}, open(place(name, "tokenizer_config.json"), "w"))


def gguf(name):
    for kind in ("f32", "f16", "q8_0", "q4_0"):
        subprocess.run([HEED, "convert", place(name), place(f"{name}.{kind}.gguf"), "--dtype", kind, "--quiet"],
                       check=True)


def gpt2_124m():
    gpt2("gpt2-124m", 4, 256, 50257, 768, 12, 12, 1024)
    gpt2_tokenizer("gpt2-124m")
    gguf("gpt2-124m")


def gpt_small():
    gpt2("gpt-small", 16, 256, 65, 384, 6, 6, 256)


def marian(name, vocabulary, batch, length):
    """The last token is the padding, as in Marian's own files; it and the end token never come."""
    import torch, transformers
    torch.manual_seed(0)
    config = transformers.MarianConfig(
        vocab_size=vocabulary, d_model=512, encoder_layers=6, decoder_layers=6, encoder_attention_heads=8,
        decoder_attention_heads=8, encoder_ffn_dim=2048, decoder_ffn_dim=2048, dropout=0.0, attention_dropout=0.0,
        activation_dropout=0.0, activation_function="relu", max_position_embeddings=512, scale_embedding=True,
        pad_token_id=vocabulary - 1, decoder_start_token_id=vocabulary - 1, eos_token_id=0, bos_token_id=None,
        forced_eos_token_id=None)
    model = transformers.MarianMTModel(config)
    model.final_logits_bias[0, 0] = model.final_logits_bias[0, -1] = -1e4
    keep(model, name)
    random = numbers()
    source = random.integers(2, vocabulary - 1, (batch, length))
    target = random.integers(2, vocabulary - 1, (batch, length))
    shifted = np.concatenate([np.full((batch, 1), vocabulary - 1), target[:, :-1]], 1)
    save(name, input_ids=source, decoder_input_ids=shifted, labels=target)


def bert(name, batch, length, masked):
    import torch, transformers
    torch.manual_seed(0)
    config = transformers.BertConfig(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    model = transformers.BertForMaskedLM(config) if masked else transformers.BertModel(config, add_pooling_layer=False)
    keep(model, name)
    return numbers().integers(1000, config.vocab_size, (batch, length))


def bert_mlm():
    ids = bert("bert-mlm", 8, 128, True)
    hidden = numbers().random(ids.shape) < 0.15
    save("bert-mlm", input_ids=np.where(hidden, 103, ids), labels=np.where(hidden, ids, -100))


def bert_base():
    ids = bert("bert-base", 8, 128, False)
    with open(place("bert-base", "vocab.txt"), "w") as file:
        file.write("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [f"t{i}" for i in range(30517)]) + "\n")
    subprocess.run([HEED, "convert", place("bert-base"), place("bert-base.q8_0.gguf"), "--dtype", "q8_0", "--quiet"],
                   check=True)
    full = np.ones_like(ids)
    save("bert-base-1", input_ids=ids[:1], attention_mask=full[:1])
    save("bert-base-8", input_ids=ids, attention_mask=full)
    for length in (16, 32):
        save(f"bert-base-1-{length}", input_ids=ids[:1, :length], attention_mask=full[:1, :length])
    # Mixed lengths: half of all positions are padding.
    lengths = np.array([128, 96, 80, 64, 48, 40, 32, 24])
    mask = (np.arange(128)[None] < lengths[:, None]).astype(np.int64)
    save("bert-base-8-padded", input_ids=np.where(mask == 1, ids, 0), attention_mask=mask)


def minilm():
    """The shape of all-MiniLM-L6-v2, on short sentences."""
    import torch, transformers
    torch.manual_seed(0)
    config = transformers.BertConfig(hidden_size=384, num_hidden_layers=6, num_attention_heads=12,
                                     intermediate_size=1536, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    keep(transformers.BertModel(config, add_pooling_layer=False), "minilm")
    for batch in (1, 32):
        ids = numbers().integers(1000, config.vocab_size, (batch, 16))
        save(f"minilm-{batch}", input_ids=ids, attention_mask=np.ones_like(ids))


def vit():
    import torch, transformers
    torch.manual_seed(0)
    config = transformers.ViTConfig(hidden_size=384, num_hidden_layers=12, num_attention_heads=6,
                                    intermediate_size=1536, num_labels=1000)
    keep(transformers.ViTForImageClassification(config), "vit-small")
    random = numbers()
    save("vit-small", pixel_values=random.uniform(-1, 1, (8, 3, 224, 224)).astype(np.float32),
         labels=random.integers(0, 1000, 8))


def regressor():
    """The tutorial's single example, and fresh weights that both sides start from."""
    with open(place("regressor.tsv"), "w") as file:
        file.write("input\ttarget\n10 20 30 40 50\t12 22 32 42 52\n")
    run = place("regressor-start")
    shutil.rmtree(run, ignore_errors=True)
    subprocess.run([HEED, "train", "--task", "regress", "--data", place("regressor.tsv"), "--out", run, "--width", "16",
                    "--heads", "2", "--layers", "2", "--ff", "32", "--dropout", "0", "--batch", "1", "--steps", "1",
                    "--lr", "1e-30", "--weight-decay", "0", "--validation-share", "0", "--quiet"], check=True)
    shutil.copytree(os.path.join(run, "model"), place("regressor"), dirs_exist_ok=True)


def llama(shape, kind):
    from random_gguf import write
    write(place(f"llama-{shape}.{kind}.gguf"), shape, kind)


def longformer():
    """The shape of longformer-base-4096 on one document of that length; the first token attends to all."""
    import torch, transformers
    torch.manual_seed(0)
    config = transformers.LongformerConfig(vocab_size=50265, max_position_embeddings=4098, type_vocab_size=1,
                                           pad_token_id=1, bos_token_id=0, eos_token_id=2, sep_token_id=2,
                                           attention_window=512, layer_norm_eps=1e-5)
    keep(transformers.LongformerModel(config, add_pooling_layer=False), "longformer")
    ids = numbers().integers(1000, config.vocab_size, (1, 4096))
    save("longformer", input_ids=ids, attention_mask=np.ones_like(ids),
         global_attention_mask=(np.arange(4096)[None] == 0).astype(np.int64))


def sentences():
    """1,000 sentences of WikiText-2's test set, 3 to 60 words long."""
    text = open(os.path.join(SHARED, "wikitext2/wiki.test.raw"), encoding="utf8").read()
    found = [" ".join(each.split()) for line in text.split("\n") if not line.startswith(" =") for each in line.split(" . ")]
    found = [each for each in found if 3 <= len(each.split()) <= 60]
    with open(place("sentences.txt"), "w", encoding="utf8") as file:
        file.write("".join(each + "\n" for each in found[:1000]))


def speech():
    """30 seconds of 16 kHz: the recording of 11 seconds twice, with four seconds of silence behind each."""
    import wave
    from faster_whisper import decode_audio
    rate = 16000
    samples = (decode_audio(os.path.join(SHARED, "speech/jfk.flac"), rate) * 32767).astype(np.int16)
    whole = np.concatenate([samples, np.zeros(4 * rate, np.int16)] * 2)[:30 * rate]
    with wave.open(place("speech-30s.wav"), "wb") as file:
        file.setnchannels(1), file.setsampwidth(2), file.setframerate(rate)
        file.writeframes(whole.tobytes())


MAKERS = {
    "longformer": longformer, "sentences": sentences, "speech-30s": speech,
    **{f"llama-{shape}.{kind}": (lambda shape=shape, kind=kind: llama(shape, kind))
       for shape in ("1.1b", "3b") for kind in ("q8_0", "q4_0", "q4_k_m")},
    "attention-1024": lambda: attention(1024), "attention-4096": lambda: attention(4096),
    "gpt2-124m": gpt2_124m, "gpt-small": gpt_small,
    "encoder-decoder": lambda: marian("encoder-decoder", 8192, 16, 64),
    "marian": lambda: marian("marian", 32001, 16, 24),
    "bert-mlm": bert_mlm, "bert-base": bert_base, "minilm": minilm, "vit-small": vit, "regressor": regressor,
}

for name in sys.argv[3:]:
    if not os.path.exists(place(name + ".made")):
        print(f"peers: making {name}", file=sys.stderr, flush=True)
        MAKERS[name]()
        open(place(name + ".made"), "w").close()
