"""GPT-2 encoding on one thread by Hugging Face tokenizers or tiktoken, from the same vocabulary file."""
import json, os

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
from protocol import serve

PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""


def hugging_face(vocabulary):
    from tokenizers import Tokenizer, models, pre_tokenizers
    tokenizer = Tokenizer(models.BPE.from_file(vocabulary, vocabulary.replace("vocab.json", "merges.txt")))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return lambda text: tokenizer.encode(text).ids


def tiktoken_encoder(vocabulary):
    import tiktoken
    printable = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    byte_of = {chr(b): b for b in printable}
    byte_of.update({chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in printable)})
    ranks = {bytes(byte_of[c] for c in token): i
             for token, i in json.load(open(vocabulary, encoding="utf8")).items() if token != "<|endoftext|>"}
    encoding = tiktoken.Encoding("gpt2", pat_str=PATTERN, mergeable_ranks=ranks,
                                 special_tokens={"<|endoftext|>": 50256})
    return encoding.encode_ordinary


class Tokenize:
    def __init__(self, command):
        self.text = open(command["text"], encoding="utf8", newline="").read()
        make = {"hugging-face": hugging_face, "tiktoken": tiktoken_encoder}[command["mode"]]
        self.encode = make(command["tokenizer"])
        self.ids = []

    def run(self):
        self.ids = self.encode(self.text)

    def values(self):
        return self.ids


serve(Tokenize)
