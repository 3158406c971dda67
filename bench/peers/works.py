"""What is compared: every work, its contestants, what is wanted, and how much arithmetic and memory
traffic it stands for."""
from dataclasses import dataclass, field, replace
import os

from random_gguf import SHAPES


@dataclass
class Peer:
    name: str  # as the table shows it
    script: str = ""
    package: str = ""  # the Python package that must be there
    wanted: float = 0.0  # times as fast as the peer that heed is to be; 0: only shown
    bound: float = 1e-3  # of the largest difference, as a fraction of the largest value
    options: dict = field(default_factory=dict)
    environment: dict = field(default_factory=dict)
    command: list = field(default_factory=list)  # a whole process instead of a worker


@dataclass
class Work:
    name: str
    title: str
    kind: str
    peers: list
    options: dict = field(default_factory=dict)
    assets: list = field(default_factory=list)
    amount: float = 0.0  # of `unit` a run; 0: the time itself is shown
    unit: str = "tok/s"
    flops: float = 0.0
    traffic: str = ""  # a file whose bytes are read once for each of `amount`/`together`
    together: int = 1
    busy: bool = False  # once more with a foreign busy loop on one core
    command: list = field(default_factory=list)
    reference: Peer = None  # whose values count as right, where heed and peer both round


# PyTorch's documentation recommends an allocator that keeps its pages; glibc's does when told to.
KEEP_PAGES = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "17179869184", "MALLOC_TOP_PAD_": "67108864"}


def torch_peers(modes, bound=1e-3, **options):
    """modes: name -> wanted ratio"""
    names = {"installed": "PyTorch as installed", "tuned": "PyTorch tuned", "compiled": "PyTorch compiled",
             "fastpath": "PyTorch nn fast path", "bf16": "PyTorch bf16", "bf16-compiled": "PyTorch bf16 compiled"}
    return [Peer(names[mode], "peer_torch.py", "torch", wanted, bound, {"mode": mode, **options},
                 {} if mode == "installed" else KEEP_PAGES) for mode, wanted in modes.items()]


BF16 = 5e-2  # of the largest difference between two roundings to bf16


def in_bf16(work, wanted_of_f32, peers):
    """The same work in bf16, beside heed in f32 and the peers in bf16."""
    itself = Peer("heed f32", wanted=wanted_of_f32, bound=BF16, options={"dtype": "f32"})
    return replace(work, name=work.name + "-bf16", title=work.title + ", bf16", peers=[itself, *peers],
                   options={**work.options, "dtype": "bf16"}, busy=False)


def gpt_flops(tokens, length, vocabulary, width, layers):
    """A training step: 6 for every weight of a product and token, and the causal half of attention."""
    return 6 * tokens * (12 * layers * width * width + vocabulary * width) + 3 * 2 * layers * tokens * length * width


def encoder_flops(tokens, length, width, layers, inner):
    return 2 * tokens * layers * (4 * width * width + 2 * width * inner) + 4 * layers * tokens * length * width


def llama_flops(shape, tokens):
    """A prefill: two for every weight of a product and token, the causal half of attention, one row of logits."""
    width, layers, heads, key_heads, inner, vocabulary = SHAPES[shape]
    weights = layers * (2 * width * width + 2 * width * width // heads * key_heads + 3 * width * inner)
    return 2 * tokens * weights + 2 * layers * tokens * tokens * width + 2 * vocabulary * width


def continuing(name, title, model, assets, llama, prompt, tokens=(), sequences=1, wanted=1.1, **options):
    """A prompt where there are no tokens, else the tokens after it. Values are compared at 15 %: both sides round
    activations to 8 bits, and random weights carry every flipped rounding on."""
    return Work(name, title, "decode" if tokens else "prefill", llama(wanted, 0.15),
                {"model": model, "prompt": prompt, "tokens": list(tokens), "sequences": sequences, **options}, assets,
                (len(tokens) if tokens else len(prompt)) * sequences, traffic=model if tokens else "",
                together=sequences)


def llama_works(at, llama):
    """Llama shapes of a billion parameters and more."""
    ids = lambda count: [(7919 * i + 13) % 31000 + 300 for i in range(count)]
    works = []
    for shape in ("1.1b", "3b"):
        for kind in ("q8_0", "q4_0", "q4_k_m"):
            asset = f"llama-{shape}.{kind}"
            model, label = at(asset + ".gguf"), f"Llama {shape.upper()}"
            add = lambda name, title, *rest, **more: works.append(
                continuing(f"llama-{shape}-{name}-{kind}", f"{label} {title}, {kind}", model, [asset], llama, *rest,
                           **more))
            add("decode", "decode", ids(16), ids(24))
            add("decode16", "decode, 16 sequences together", ids(16), ids(6), sequences=16, wanted=2.0)
            add("prefill", "prefill 512", ids(512), wanted=2.0)
            works[-1].flops = llama_flops(shape, 512)
            if shape == "1.1b":
                add("prefill4096", "prefill 4,096", ids(4096), wanted=2.0)
                works[-1].flops = llama_flops(shape, 4096)
                add("depth8192", "decode at depth 8,192, KV in f16", ids(8192), ids(16), wanted=1.2, kv="f16",
                    resume=True)
    return works


def pipeline_works(at, shared):
    """Trained models, by the folder HEED_MODELS (docs/models.md says where they come from)."""
    models = os.environ.get("HEED_MODELS", "")
    whisper, mpnet = os.path.join(models, "whisper-base"), os.path.join(models, "all-mpnet-base-v2")
    speech, texts = at("speech-30s.wav"), at("sentences.txt")
    works = []
    if os.path.exists(os.path.join(whisper, "model.safetensors")):
        works.append(Work(
            "whisper", "Whisper-base, 30 s of speech", "transcribe",
            [Peer("CTranslate2 f32 (faster-whisper)", "peer_speech.py", "faster_whisper", 1.3, 0,
                  {"model": os.path.join(models, "whisper-base-ctranslate2")})],
            {"model": whisper, "audio": speech, "source": os.path.join(shared, "speech/jfk.flac")}, ["speech-30s"], 30,
            "s of speech/s"))
    if os.path.exists(os.path.join(mpnet, "model.safetensors")):
        works.append(Work(
            "mpnet", "all-mpnet-base-v2, 1,000 sentences of mixed length", "embed",
            [Peer("ONNX Runtime f32", "peer_onnx.py", "onnxruntime", 1.3, 1e-4, {"mode": "f32"}),
             Peer("sentence-transformers", "peer_sentences.py", "sentence_transformers", 1.3, 1e-4),
             Peer("sentence-transformers tuned", "peer_sentences.py", "sentence_transformers", 0, 1e-4,
                  environment=KEEP_PAGES)],
            {"model": mpnet, "text": texts}, ["sentences"], 1000, "sentences/s"))
    return works


def file_works(llama, heed, here, threads):
    """Real files, by environment variable: they are not made and may not be copied here."""
    works = []
    for variable, name, label in (("HEED_QWEN_GGUF", "qwen", "Qwen2.5-Coder 1.5B Q4_K_M"),
                                  ("HEED_SMOLLM_GGUF", "smollm", "SmolLM2 135M Q4_1")):
        model = os.environ.get(variable, "")
        if not os.path.exists(model):
            continue
        ids = lambda count: [(7919 * i + 13) % 40000 + 300 for i in range(count)]
        add = lambda part, title, *rest, **more: works.append(
            continuing(f"{name}-{part}", f"{label} {title}", model, [], llama, *rest, **more))
        add("decode", "decode", ids(16), ids(24))
        add("decode16", "decode, 16 sequences together", ids(16), ids(6), sequences=16, wanted=1.5)
        add("prefill", "prefill 512", ids(512), wanted=2.0)
        works.append(first_token(f"{name}-start", f"start to first token, {label}", model, heed, here, threads))
        works += answers(name, label, model)
    return works


EDIT = """Add type hints to this code. Change nothing else and print the whole file.
```python
class Inventory:
    def __init__(self, owner):
        self.owner = owner
        self.items = {}

    def add(self, name, count, price):
        if count <= 0:
            raise ValueError("count must be positive")
        if name in self.items:
            old_count, old_price = self.items[name]
            self.items[name] = (old_count + count, price)
        else:
            self.items[name] = (count, price)

    def remove(self, name, count):
        if name not in self.items:
            raise KeyError(name)
        old_count, price = self.items[name]
        if count > old_count:
            raise ValueError("not enough items")
        if count == old_count:
            del self.items[name]
        else:
            self.items[name] = (old_count - count, price)

    def total(self):
        return sum(count * price for count, price in self.items.values())
```"""
SCHEMA = """{"type": "array", "minItems": 12, "items": {"type": "object", "additionalProperties": false,
 "required": ["name", "capital", "population"], "properties": {"name": {"type": "string"},
 "capital": {"type": "string"}, "population": {"type": "integer"}}}}"""


def answers(name, label, model):
    """heed beside itself: an edit with prompt lookup, JSON by a schema without one. Ids are equal where guesses are
    checked; with a schema the text is another one, and what counts is the time of a token."""
    edit = {"model": model, "message": EDIT, "max_tokens": 256}
    json = {"model": model, "message": "List the countries of Europe as a JSON array of objects with name, capital and "
            "population.", "max_tokens": 160}
    plain = Peer("heed without guesses", wanted=1.5, bound=0.0, options={"lookup": False})
    free = Peer("heed without a schema", wanted=0.9, bound=float("inf"), options={"schema": ""})
    return [Work(f"{name}-edit", f"{label} edits code, guessing from the prompt", "answer", [plain],
                 {**edit, "lookup": True}, amount=256),
            Work(f"{name}-schema", f"{label} writes JSON by a schema", "answer", [free], {**json, "schema": SCHEMA},
                 amount=160)]


def first_token(name, title, model, heed, here, threads, text="abcdefghijklmnopqrstuvwxyzabcdef", **more):
    return Work(name, title, "process",
                [Peer("llama.cpp (without Python's start)", package="llama_cpp", bound=0, wanted=1.0,
                      command=["{python}", os.path.join(here, "peer_llama.py"), model, str(threads), text])],
                more.pop("options", {}), more.pop("assets", []),
                command=[heed, "generate", model, "--prompt", text, "--max-tokens", "1", "--temperature", "0",
                         "--quiet", "--json"])


def all_works(folder, heed, here, shared, threads):
    at = lambda name: os.path.join(folder, name)
    works = []

    for length in (1024, 4096):
        for backward in (False, True):
            products = 2 * 12 * 64 * length * (length + 1) * (3.5 if backward else 1)
            works.append(Work(
                f"attention-{length}" + ("-backward" if backward else ""),
                f"attention T={length} forward" + ("+backward" if backward else ""), "attention",
                torch_peers({"installed": 1.5, "tuned": 1.5}, 1e-4),
                {"inputs": at(f"attention-{length}.safetensors"), "backward": backward},
                [f"attention-{length}"], flops=products))
            works.append(in_bf16(works[-1], 1.6, torch_peers({"bf16": 1.3}, BF16)))

    def train(name, title, asset, cls, tokens, flops, wanted, busy=False, modes=("installed", "tuned", "compiled"),
              unit="tok/s"):
        works.append(Work(name, title, "train",
                          torch_peers(dict(zip(modes, wanted)), 1e-3, **{"class": cls}),
                          {"model": at(asset), "inputs": at(asset + ".safetensors"), "lr": 1e-4},
                          [asset], tokens, unit=unit, flops=flops, busy=busy))
        works.append(in_bf16(works[-1], 1.6,
                             torch_peers({"bf16": 1.2, "bf16-compiled": 1.2}, BF16, **{"class": cls})))

    train("train-gpt2", "train GPT-2 124M B=4 T=256", "gpt2-124m", "GPT2LMHeadModel", 1024,
          gpt_flops(1024, 256, 50257, 768, 12), (1.4, 1.1, 1.1))
    train("train-small", "train GPT 6x384 B=16 T=256", "gpt-small", "GPT2LMHeadModel", 4096,
          gpt_flops(4096, 256, 65, 384, 6), (1.5, 1.15, 1.15), busy=True)
    both = encoder_flops(1024, 64, 512, 6, 2048)
    cross = 2 * 1024 * 6 * 4 * 512 * 512 + 4 * 6 * 1024 * 64 * 512
    train("train-seq2seq", "train encoder-decoder 512 6+6 B=16 S=T=64", "encoder-decoder", "MarianMTModel", 2048,
          3 * (2 * both + cross - 2 * 6 * 1024 * 64 * 512 + 2 * 1024 * 8192 * 512), (1.4, 1.1, 1.1))
    train("train-bert", "train BERT-base MLM B=8 T=128", "bert-mlm", "BertForMaskedLM", 1024,
          3 * (encoder_flops(1024, 128, 768, 12, 3072) + 2 * 1024 * (768 * 768 + 0.15 * 30522 * 768)),
          (1.4, 1.1, 1.1))
    train("train-vit", "train ViT-small B=8 224x224", "vit-small", "ViTForImageClassification", 8,
          3 * (encoder_flops(8 * 197, 197, 384, 12, 1536) + 2 * 8 * 196 * 768 * 384), (1.4, 1.1, 1.1), unit="img/s")

    works.append(Work(
        "regressor", "regressor, 500 epochs, whole process", "process",
        [Peer(f"PyTorch {mode}", package="torch", wanted=15, bound=1e-3,
              environment={} if mode == "installed" else KEEP_PAGES,
              command=["{python}", os.path.join(here, "regressor_torch.py"), at("regressor"), mode])
         for mode in ("installed", "tuned")], assets=["regressor"],
        command=[heed, "train", "--task", "regress", "--data", at("regressor.tsv"), "--out", at("regressor-run"),
                 "--from", at("regressor"), "--batch", "1", "--epochs", "500", "--lr", "1e-3", "--warmup", "0",
                 "--schedule", "constant", "--weight-decay", "0", "--clip", "0", "--validation-share", "0",
                 "--checkpoint-every", "500", "--quiet"]))

    def onnx(mode, wanted, bound=1e-3):
        return Peer("ONNX Runtime " + mode, "peer_onnx.py", "onnxruntime", wanted, bound,
                    {"mode": mode, "model": at("bert-base")})

    def openvino(mode, wanted, bound=1e-3, model="bert-base"):
        return Peer("OpenVINO " + mode, "peer_openvino.py", "nncf" if mode == "int8" else "openvino", wanted, bound,
                    {"mode": mode, "model": at(model), "class": "BertModel"})

    def encode(name, title, inputs, tokens, peers, flops, model="bert-base", **more):
        works.append(Work(name, title, "encode", peers,
                          {"model": at(model), "inputs": at(inputs + ".safetensors")}, [model], tokens,
                          flops=flops, **more))

    bert = {"class": "BertModel"}
    bert_flops = lambda batch, length: encoder_flops(batch * length, length, 768, 12, 3072)
    encode("encode-1", "BERT-base B=1 T=128", "bert-base-1", 128,
           [onnx("f32", 1.1), openvino("f32", 1.1),
            *torch_peers({"installed": 1.1, "compiled": 1.1, "fastpath": 1.1}, **bert)], bert_flops(1, 128))
    works.append(in_bf16(works[-1], 0, [*torch_peers({"bf16": 1.2, "bf16-compiled": 1.2}, BF16, **bert),
                                        openvino("bf16", 1.2, BF16)]))
    for length in (16, 32):
        encode(f"encode-1-{length}", f"BERT-base B=1 T={length}", f"bert-base-1-{length}", length,
               [onnx("f32", 1.1), openvino("f32", 1.1), *torch_peers({"tuned": 1.1}, **bert)],
               bert_flops(1, length))
    encode("encode-8", "BERT-base B=8 T=128", "bert-base-8", 1024,
           [onnx("f32", 1.0), openvino("f32", 1.0),
            *torch_peers({"installed": 1.1, "compiled": 1.1, "fastpath": 1.1}, **bert)], bert_flops(8, 128), busy=True)
    works.append(in_bf16(works[-1], 0, [*torch_peers({"bf16": 1.2, "bf16-compiled": 1.2}, BF16, **bert),
                                        openvino("bf16", 1.2, BF16)]))
    encode("encode-8-padded", "BERT-base B=8, half padding", "bert-base-8-padded", 512,
           [onnx("f32", 1.6), *torch_peers({"installed": 1.1, "compiled": 1.1, "fastpath": 1.1}, **bert)],
           bert_flops(8, 64))
    for batch, inputs in ((1, "bert-base-1"), (8, "bert-base-8")):
        encode(f"encode-{batch}-q8_0", f"BERT-base B={batch} T=128, 8-bit weights", inputs, 128 * batch,
               [onnx("int8", 1.1, 0.1), openvino("int8", 1.1, 0.1)], bert_flops(batch, 128),
               reference=torch_peers({"installed": 0}, **bert)[0])
        works[-1].options["model"] = at("bert-base.q8_0.gguf")
        works[-1].reference.options["model"] = at("bert-base")
    for batch in (1, 32):
        encode(f"minilm-{batch}", f"MiniLM (6 layers of 384) B={batch} T=16", f"minilm-{batch}", 16 * batch,
               [Peer("ONNX Runtime f32", "peer_onnx.py", "onnxruntime", 1.1, 1e-3,
                     {"mode": "f32", "model": at("minilm")}), openvino("f32", 1.1, model="minilm"),
                *torch_peers({"tuned": 1.1}, **bert)],
               encoder_flops(16 * batch, 16, 384, 6, 1536), model="minilm")

    prompt512 = [(7919 * i + 13) % 50000 for i in range(512)]
    bounds = {"f32": 2e-3, "f16": 2e-2, "q8_0": 5e-2, "q4_0": 1e-1}
    gpt2_flops = lambda n: 2 * n * 12 * 12 * 768 * 768 + 2 * 12 * n * n * 768 + 2 * 50257 * 768

    def llama(wanted, bound):
        return [Peer("llama.cpp", "peer_llama.py", "llama_cpp", wanted, bound, {"mode": "flash"})]

    for kind, wanted in {"f32": 1.3, "f16": 1.05, "q8_0": 1.6, "q4_0": 1.4}.items():
        model = at(f"gpt2-124m.{kind}.gguf")
        works.append(Work(f"prefill-{kind}", f"GPT-2 prefill 512, {kind}", "prefill", llama(wanted, bounds[kind]),
                          {"model": model, "prompt": prompt512, "sequences": 1}, ["gpt2-124m"], 512,
                          flops=gpt2_flops(512)))
    for kind, wanted in {"f32": 1.0, "f16": 1.3, "q8_0": 1.3, "q4_0": 1.3}.items():
        model = at(f"gpt2-124m.{kind}.gguf")
        works.append(Work(f"decode-{kind}", f"GPT-2 decode, {kind}", "decode", llama(wanted, bounds[kind]),
                          {"model": model, "prompt": prompt512[:16], "tokens": prompt512[100:132], "sequences": 1},
                          ["gpt2-124m"], 32, traffic=model, busy=kind in ("f32", "q8_0")))
    for kind, wanted in {"f32": 1.5, "q8_0": 2.0}.items():
        model = at(f"gpt2-124m.{kind}.gguf")
        works.append(Work(f"decode16-{kind}", f"GPT-2 decode, 16 sequences together, {kind}", "decode",
                          llama(wanted, bounds[kind]),
                          {"model": model, "prompt": prompt512[:16], "tokens": prompt512[100:116], "sequences": 16},
                          ["gpt2-124m"], 256, traffic=model, together=16))

    works += llama_works(at, llama)
    works += file_works(llama, heed, here, threads)

    sources = [[2 + (7919 * (i + 31 * s)) % 31990 for i in range(16 + s % 9)] + [0] for s in range(16)]
    for count, name, title in ((1, "translate-1", "one sentence"), (16, "translate-16", "16 sentences")):
        peers = [Peer("CTranslate2 f32", "peer_ctranslate2.py", "ctranslate2", 1.2, 1e-3, {"mode": "f32"})]
        works.append(Work(name, f"Marian 512 6+6, beam 4, {title}", "translate", peers,
                          {"model": at("marian"), "sources": sources[:count], "beams": 4, "max_tokens": 24,
                           "one_at_a_time": False}, ["marian"], 24 * count))

    works += pipeline_works(at, shared)
    tokens = 4096
    near = 4 * tokens * 12 * 768 * (512 + 1)  # scores and sums over a window of 512 on both sides together
    encode("longformer", "Longformer-base T=4096", "longformer", tokens,
           torch_peers({"installed": 3.0, "tuned": 0}, **{"class": "LongformerModel"}),
           encoder_flops(tokens, 0, 768, 12, 3072) + near, model="longformer")

    text = os.path.join(shared, "wikitext2/wiki.test.raw")
    vocabulary = os.path.join(shared, "tokenizers/gpt2.vocab.json")
    for cold in (True, False):
        size = os.path.getsize(text) / 1e6 if os.path.exists(text) else 0
        works.append(Work(
            "tokenize-cold" if cold else "tokenize-warm",
            "GPT-2 tokens, one thread, " + ("first pass" if cold else "words seen before"), "tokenize",
            [Peer("Hugging Face tokenizers", "peer_tokenizers.py", "tokenizers", 5, 0, {"mode": "hugging-face"}),
             Peer("tiktoken", "peer_tokenizers.py", "tiktoken", 3, 0, {"mode": "tiktoken"})],
            {"tokenizer": vocabulary, "text": text, "cold": cold}, amount=size, unit="MB/s"))

    for kind in ("f32", "q8_0"):
        works.append(first_token(f"start-{kind}", f"start to first token, GPT-2 {kind}, 16-token prompt",
                                 at(f"gpt2-124m.{kind}.gguf"), heed, here, threads, options={"limit": 0.150},
                                 assets=["gpt2-124m"]))
    return works
