"""ONNX Runtime on BERT, as its own optimizer leaves an exported model: fused attention, skip-norm and
bias-gelu nodes. The graph is written here, so that no exporter is needed. Modes: f32, int8 (its
dynamic quantisation, weights by channel)."""
import json, os
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
import onnxruntime
from protocol import sample, serve

MICROSOFT = "com.microsoft"


def build(folder, padded, file):
    from safetensors.numpy import load_file
    weights = {name.removeprefix("bert."): value for name, value in load_file(folder + "/model.safetensors").items()}
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
    places = constant("places", weights["embeddings.position_embeddings.weight"] +
                      weights["embeddings.token_type_embeddings.weight"][0])
    rows = node("Slice", [places, zero, shape, zero], "positions")
    x = node("Add", [words, rows], "sum")
    gamma, beta = parts("embeddings.LayerNorm")
    x = node("LayerNormalization", [x, constant("gamma", gamma), constant("beta", beta)], "x", axis=-1, epsilon=eps)
    mask = node("Cast", ["attention_mask"], "mask", to=TensorProto.INT32) if padded else ""
    for i in range(config["num_hidden_layers"]):
        at, n = f"encoder.layer.{i}.", f"l{i}."
        q, k, v = (parts(f"{at}attention.self.{name}") for name in ("query", "key", "value"))
        weight = constant(n + "qkv", np.concatenate([q[0].T, k[0].T, v[0].T], 1))
        bias = constant(n + "qkv_bias", np.concatenate([q[1], k[1], v[1]]))
        inputs = [x, weight, bias] + ([mask] if padded else [])
        z = node("Attention", inputs, n + "z", num_heads=config["num_attention_heads"])

        def dense(source, place, name):
            return node("MatMul", [source, constant(n + name + "_weight", parts(place)[0].T)], n + name)

        def norm(y, residual, place, norm_place, name):
            gamma, beta = parts(norm_place)
            return node("SkipLayerNormalization",
                        [y, residual, constant(n + name + "_gamma", gamma), constant(n + name + "_beta", beta),
                         constant(n + name + "_bias", parts(place)[1])], n + name, epsilon=eps)

        out = at + "attention.output."
        x = norm(dense(z, out + "dense", "out"), x, out + "dense", out + "LayerNorm", "norm1")
        inner = at + "intermediate.dense"
        h = node("BiasGelu", [dense(x, inner, "up"), constant(n + "up_bias", parts(inner)[1])], n + "gelu")
        down = at + "output."
        x = norm(dense(h, down + "dense", "down"), x, down + "dense", down + "LayerNorm", "norm2")
    ids = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"])
           for name in ["input_ids"] + (["attention_mask"] if padded else [])]
    result = helper.make_tensor_value_info(x, TensorProto.FLOAT, ["batch", "length", config["hidden_size"]])
    graph = helper.make_graph(nodes, "bert", ids, [result], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)],
                              ir_version=8)
    onnx.save(model, file)


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
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = command["threads"]
        self.session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        self.feed = {i.name: self.inputs[i.name] for i in self.session.get_inputs()}
        self.states = None

    def run(self):
        self.states = self.session.run(None, self.feed)[0]

    def values(self):
        return sample(self.states[self.inputs["attention_mask"] != 0].reshape(-1))


if __name__ == "__main__":
    serve(Encode)
