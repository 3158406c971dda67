"""CTranslate2 on a Marian folder, converted by its own loader. Modes: f32, int8."""
import os
import ctranslate2
from protocol import serve


def convert(folder, out):
    import transformers
    from ctranslate2.converters import transformers as loaders
    model = transformers.MarianMTModel.from_pretrained(folder)
    spec = loaders.MarianMTLoader().get_model_spec(model)
    names = [f"t{i}" for i in range(model.config.vocab_size - 1)]
    names[0], names[1] = "</s>", "<unk>"
    spec.register_source_vocabulary(names)
    spec.register_target_vocabulary(names)
    spec.config.eos_token = spec.config.decoder_start_token = "</s>"
    spec.config.unk_token = "<unk>"
    spec.validate()
    os.makedirs(out)
    spec.save(out)


class Translate:
    def __init__(self, command):
        folder = command["model"] + "/ctranslate2"
        if not os.path.exists(folder):
            convert(command["model"], folder)
        kind = {"f32": "float32", "int8": "int8"}[command["mode"]]
        self.translator = ctranslate2.Translator(folder, compute_type=kind, intra_threads=command["threads"])
        names = {0: "</s>", 1: "<unk>"}
        self.sources = [[names.get(i, f"t{i}") for i in ids] for ids in command["sources"]]
        self.options = dict(beam_size=command["beams"], max_decoding_length=command["max_tokens"],
                            length_penalty=1.0, return_scores=True)
        self.single = command["one_at_a_time"]
        self.results = []

    def run(self):
        groups = [[source] for source in self.sources] if self.single else [self.sources]
        self.results = [r for group in groups for r in self.translator.translate_batch(group, **self.options)]

    def values(self):
        return [result.scores[0] for result in self.results]


serve(Translate)
