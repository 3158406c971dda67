"""OpenVINO on an encoder, converted from PyTorch. Modes: f32, bf16 (the precision that it infers in) and
int8 (weights by channel in 8 bits, activations rounded as they come: its dynamic quantisation; needs the
package nncf)."""
import os
import numpy as np
import openvino
from protocol import sample, serve


def convert(command, file):
    import torch, transformers
    model = getattr(transformers, command["class"]).from_pretrained(command["model"], dtype=torch.float32).eval()
    ids = torch.ones(2, 16, dtype=torch.int64)
    graph = openvino.convert_model(model, example_input={"input_ids": ids, "attention_mask": ids})
    if command["mode"] == "int8":
        import nncf
        graph = nncf.compress_weights(graph, mode=nncf.CompressWeightsMode.INT8_SYM)
    openvino.save_model(graph, file, compress_to_fp16=False)


class Encode:
    def __init__(self, command):
        from safetensors.numpy import load_file
        self.inputs = load_file(command["inputs"])
        small = command["mode"] == "int8"
        file = f"{command['model']}/openvino{'.int8' if small else ''}.xml"
        if not os.path.exists(file):
            convert(command, file)
        settings = {"INFERENCE_PRECISION_HINT": "bf16" if command["mode"] == "bf16" else "f32",
                    "INFERENCE_NUM_THREADS": command["threads"], "PERFORMANCE_HINT": "LATENCY"}
        if small:
            settings["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = 32
        self.model = openvino.Core().compile_model(file, "CPU", settings)
        self.request = self.model.create_infer_request()
        names = [i.get_any_name() for i in self.model.inputs]
        shape = self.inputs["input_ids"].shape
        known = {**self.inputs, "token_type_ids": np.zeros(shape, np.int64)}
        self.feed = {name: known[name] for name in names}
        self.states = None

    def run(self):
        self.states = self.request.infer(self.feed)[self.model.outputs[0]]

    def values(self):
        return sample(np.asarray(self.states, np.float32)[self.inputs["attention_mask"] != 0].reshape(-1))


serve(Encode)
