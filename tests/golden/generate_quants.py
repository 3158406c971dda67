"""Reference values of GGUF's block types: random blocks, and the weights that the gguf package reads from them.

python tests/golden/generate_quants.py; needs the PyPI packages gguf, numpy, safetensors.
"""

import pathlib

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants
from safetensors.numpy import save_file

FOLDER = pathlib.Path(__file__).parent / "io"
KINDS = (
    "Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS MXFP4 "
    "IQ2_XXS IQ2_XS IQ2_S IQ3_XXS IQ3_S IQ1_S IQ1_M TQ1_0 TQ2_0"
).split()


def finite_blocks(generator, kind, count):
    """Blocks of random bytes whose weights are finite and not beyond what a model has."""
    _, size = GGML_QUANT_SIZES[kind]
    blocks = []
    while len(blocks) < count:
        block = generator.integers(0, 256, size, dtype=np.uint8)
        if kind == GGMLQuantizationType.MXFP4:
            block[0] = (0, 1, 2, 120, 127, 250)[len(blocks) % 6]
        with np.errstate(all="ignore"):
            weights = quants.dequantize(block[None], kind)
        limit = np.inf if kind == GGMLQuantizationType.MXFP4 else 1e7
        if np.isfinite(weights).all() and np.abs(weights).max() < limit:
            blocks.append(block)
    return np.stack(blocks)


def main():
    generator = np.random.default_rng(21)
    tensors = {}
    for name in KINDS:
        kind = GGMLQuantizationType[name]
        weights, _ = GGML_QUANT_SIZES[kind]
        blocks = finite_blocks(generator, kind, 16 if weights == 32 else 3)
        tensors[f"{name.lower()}.blocks"] = blocks
        tensors[f"{name.lower()}.weights"] = quants.dequantize(blocks, kind).astype(np.float32)
    save_file(tensors, FOLDER / "blocks.safetensors")


if __name__ == "__main__":
    main()
