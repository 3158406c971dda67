"""llama.cpp through llama-cpp-python's low-level calls, on the same GGUF. As a script with arguments
MODEL THREADS TEXT it does what heed generate does for one token and prints the seconds after the
import."""
import ctypes, sys, time
import llama_cpp as api
from protocol import sample, serve

QUIET = api.llama_log_callback(lambda level, text, data: None)
api.llama_log_set(QUIET, None)
api.llama_backend_init()


class Model:
    def __init__(self, path, threads, positions, sequences, flash, kv="f16"):
        self.model = api.llama_model_load_from_file(path.encode(), api.llama_model_default_params())
        if not self.model:
            raise RuntimeError("llama.cpp cannot load " + path)
        options = api.llama_context_default_params()
        options.n_ctx = positions * sequences
        options.n_batch = options.n_ubatch = max(512, sequences)
        options.n_seq_max = sequences
        options.n_threads = options.n_threads_batch = threads
        options.no_perf = True
        options.type_k = options.type_v = {"f32": 0, "f16": 1, "q8_0": 8}[kv]
        if not flash:
            options.flash_attn_type = 0
        self.context = api.llama_init_from_model(self.model, options)
        self.vocabulary = api.llama_vocab_n_tokens(api.llama_model_get_vocab(self.model))
        self.batch = api.llama_batch_init(max(512, sequences), 0, 1)

    def clear(self):
        api.llama_memory_clear(api.llama_get_memory(self.context), True)

    def feed(self, entries):
        """entries: (token, position, sequence, whether its logits are wanted)"""
        b = self.batch
        b.n_tokens = len(entries)
        for i, (token, position, sequence, wanted) in enumerate(entries):
            b.token[i], b.pos[i], b.n_seq_id[i], b.logits[i] = token, position, 1, wanted
            b.seq_id[i][0] = sequence
        if api.llama_decode(self.context, b) != 0:
            raise RuntimeError("llama_decode failed")

    def logits(self):
        return api.llama_get_logits_ith(self.context, -1)[:self.vocabulary]


class Continue:
    def __init__(self, command):
        self.prompt, self.tokens = command["prompt"], command.get("tokens", [])
        self.prefill, self.sequences = command["kind"] == "prefill", command["sequences"]
        self.resume, self.at = command.get("resume", False), 0
        positions = len(self.prompt) + len(self.tokens) * (64 if self.resume else 1) + 32
        self.model = Model(command["model"], command["threads"], positions, self.sequences,
                           command["mode"] == "flash", command.get("kv", "f16"))

    def read_prompt(self):
        self.model.clear()
        last = len(self.prompt) - 1
        for s in range(self.sequences):
            for chunk in range(0, len(self.prompt), 512):
                self.model.feed([(token + (s if i == last else 0), i, s, i == last)
                                 for i, token in enumerate(self.prompt[chunk:chunk + 512], chunk)])
        api.llama_synchronize(self.model.context)
        self.at = last + 1

    def run(self):
        start = time.perf_counter()
        if not self.resume or self.at == 0:
            self.read_prompt()
        if self.prefill:
            return time.perf_counter() - start
        start = time.perf_counter()
        for token in self.tokens:
            self.model.feed([(token + s, self.at, s, True) for s in range(self.sequences)])
            api.llama_synchronize(self.model.context)
            self.at += 1
        return time.perf_counter() - start

    def values(self):
        return sample(self.model.logits())


def first_token(path, threads, text):
    start = time.perf_counter()
    model = Model(path, threads, 64, 1, True)
    ids = (ctypes.c_int32 * 64)()
    count = api.llama_tokenize(api.llama_model_get_vocab(model.model), text.encode(), len(text.encode()), ids, 64,
                               False, False)
    model.feed([(ids[i], i, 0, i == count - 1) for i in range(count)])
    logits = model.logits()
    best = max(range(len(logits)), key=logits.__getitem__)
    print(f'{{"seconds": {time.perf_counter() - start}, "ids": [{best}], "prompt": {count}}}')


if len(sys.argv) > 1:
    first_token(sys.argv[1], int(sys.argv[2]), sys.argv[3])
else:
    serve(Continue)
