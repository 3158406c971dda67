"""ONNX Runtime on BERT and MPNet, as its own optimizer leaves an exported model: fused attention, skip-norm
and bias-gelu nodes. The graph is written here, so that no exporter is needed. Modes: f32, int8 (its
dynamic quantisation, weights by channel)."""
import json, os
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
import onnxruntime
from protocol import sample, serve

MICROSOFT = "com.microsoft"


# Where BERT and MPNet keep the parts of a layer.
BERT = {"qkv": ["attention.self.query", "attention.self.key", "attention.self.value"], "out": "attention.output.dense",
        "norm": "attention.output.LayerNorm", "first": 0}
MPNET = {"qkv": ["attention.attn.q", "attention.attn.k", "attention.attn.v"], "out": "attention.attn.o",
         "norm": "attention.LayerNorm", "first": 2}  # of the rows of positions


def build(folder, padded, file, names=BERT):
    """`padded`: the graph takes attention_mask; MPNet's also takes position_bias [1, heads, length, length]."""
    from safetensors.numpy import load_file
    weights = {name.removeprefix("bert."): value.astype(np.float32) if value.dtype == np.float16 else value
               for name, value in load_file(folder + "/model.safetensors").items()}
    config = json.load(open(folder + "/config.json"))
    nodes, constants = [], []

    def constant(name, value):
        constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def node(op, inputs, output, **attributes):
        domain = MICROSOFT if op in ("Attention", "SkipLayerNormalization", "BiasGelu") else ""
        nodes.append(helper.make_node(op, inputs, [output], name=output, domain=domain, **attributes))
        return output

    def parts(place):
        return weights[place + ".weight"], weights[place + ".bias"]

    eps = config["layer_norm_eps"]
    words = node("Gather", [constant("words", weights["embeddings.word_embeddings.weight"]), "input_ids"], "embedded")
    shape = node("Shape", ["input_ids"], "length", start=1, end=2)
    zero = constant("zero", np.array([0], np.int64))
    table = weights["embeddings.position_embeddings.weight"][names["first"]:]
    if "embeddings.token_type_embeddings.weight" in weights:
        table = table + weights["embeddings.token_type_embeddings.weight"][0]
    rows = node("Slice", [constant("places", table), zero, shape, zero], "positions")
    x = node("Add", [words, rows], "sum")
    gamma, beta = parts("embeddings.LayerNorm")
    x = node("LayerNormalization", [x, constant("gamma", gamma), constant("beta", beta)], "x", axis=-1, epsilon=eps)
    mask = node("Cast", ["attention_mask"], "mask", to=TensorProto.INT32) if padded else ""
    biased = names is MPNET
    for i in range(config["num_hidden_layers"]):
        at, n = f"encoder.layer.{i}.", f"l{i}."
        q, k, v = (parts(at + name) for name in names["qkv"])
        weight = constant(n + "qkv", np.concatenate([q[0].T, k[0].T, v[0].T], 1))
        bias = constant(n + "qkv_bias", np.concatenate([q[1], k[1], v[1]]))
        inputs = [x, weight, bias] + ([mask] if padded or biased else []) + (["", "position_bias"] if biased else [])
        z = node("Attention", inputs, n + "z", num_heads=config["num_attention_heads"])

        def dense(source, place, name):
            return node("MatMul", [source, constant(n + name + "_weight", parts(place)[0].T)], n + name)

        def norm(y, residual, place, norm_place, name):
            gamma, beta = parts(norm_place)
            return node("SkipLayerNormalization",
                        [y, residual, constant(n + name + "_gamma", gamma), constant(n + name + "_beta", beta),
                         constant(n + name + "_bias", parts(place)[1])], n + name, epsilon=eps)

        x = norm(dense(z, at + names["out"], "out"), x, at + names["out"], at + names["norm"], "norm1")
        inner = at + "intermediate.dense"
        h = node("BiasGelu", [dense(x, inner, "up"), constant(n + "up_bias", parts(inner)[1])], n + "gelu")
        down = at + "output."
        x = norm(dense(h, down + "dense", "down"), x, down + "dense", down + "LayerNorm", "norm2")
    ids = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"])
           for name in ["input_ids"] + (["attention_mask"] if padded else [])]
    if biased:
        ids.append(helper.make_tensor_value_info("position_bias", TensorProto.FLOAT, [1, "heads", "length", "length"]))
    result = helper.make_tensor_value_info(x, TensorProto.FLOAT, ["batch", "length", config["hidden_size"]])
    graph = helper.make_graph(nodes, "encoder", ids, [result], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)],
                              ir_version=8)
    onnx.save(model, file)


def position_buckets(length, buckets, most=128):
    """T5's buckets of key - query in both directions."""
    relative = np.arange(length)[None] - np.arange(length)[:, None]
    half = buckets // 2
    away, exact = np.abs(relative), half // 2
    far = exact + (np.log(np.maximum(away, 1) / exact) / np.log(most / exact) * (half - exact)).astype(np.int64)
    return np.where(relative > 0, half, 0) + np.where(away < exact, away, np.minimum(far, half - 1))


def session_of(file, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])


class Embed:
    """Vectors of sentences: tokenized, sorted by length, 32 together, mean over the tokens, normalised."""

    def __init__(self, command):
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer
        folder = command["model"]
        file = os.path.join(os.path.dirname(command["text"]), "mpnet.onnx")
        if not os.path.exists(file):
            build(folder, True, file, MPNET)
        self.session = session_of(file, command["threads"])
        self.table = load_file(folder + "/model.safetensors")["encoder.relative_attention_bias.weight"]
        self.tokenizer = Tokenizer.from_file(folder + "/tokenizer.json")
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(384)
        self.texts = open(command["text"], encoding="utf8").read().splitlines()
        self.vectors = None

    def run(self):
        ids = [each.ids for each in self.tokenizer.encode_batch(self.texts)]
        order = sorted(range(len(ids)), key=lambda i: -len(ids[i]))
        self.vectors = np.zeros((len(ids), self.table_size()), np.float32)
        for begin in range(0, len(ids), 32):
            together = order[begin:begin + 32]
            length = len(ids[together[0]])
            mask = np.zeros((len(together), length), np.int64)
            rows = np.ones((len(together), length), np.int64)  # 1 is MPNet's padding
            for row, i in enumerate(together):
                rows[row, :len(ids[i])], mask[row, :len(ids[i])] = ids[i], 1
            bias = self.table[position_buckets(length, len(self.table))].transpose(2, 0, 1)[None]
            states, = self.session.run(None, {"input_ids": rows, "attention_mask": mask,
                                              "position_bias": np.ascontiguousarray(bias)})
            sums = (states * mask[..., None]).sum(1)
            self.vectors[together] = sums / np.linalg.norm(sums, axis=1, keepdims=True)

    def table_size(self):
        return self.session.get_outputs()[0].shape[2]

    def values(self):
        return sample(self.vectors.reshape(-1))


class Encode:
    def __init__(self, command):
        from safetensors.numpy import load_file
        self.inputs = load_file(command["inputs"])
        padded = not self.inputs["attention_mask"].all()
        file = f"{command['model']}/{'padded' if padded else 'full'}.onnx"
        if not os.path.exists(file):
            build(command["model"], padded, file)
        if command["mode"] == "int8":
            small = file.replace(".onnx", ".int8.onnx")
            if not os.path.exists(small):
                from onnxruntime.quantization import QuantType, quantize_dynamic
                quantize_dynamic(file, small, weight_type=QuantType.QInt8, per_channel=True,
                                 extra_options={"DefaultTensorType": TensorProto.FLOAT})
            file = small
        self.session = session_of(file, command["threads"])
        self.feed = {i.name: self.inputs[i.name] for i in self.session.get_inputs()}
        self.states = None

    def run(self):
        self.states = self.session.run(None, self.feed)[0]

    def values(self):
        return sample(self.states[self.inputs["attention_mask"] != 0].reshape(-1))


if __name__ == "__main__":
    serve(lambda command: (Embed if command["kind"] == "embed" else Encode)(command))
