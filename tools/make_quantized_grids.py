"""Writes src/kernels/quantized_grids.h: the grids of GGUF's I-quants, packed.

python tools/make_quantized_grids.py; needs the PyPI package gguf. The grids are constants of the file format.
"""

import pathlib

import numpy as np
from gguf import quants

HEAD = """#pragma once

#include <cstdint>

// Made by tools/make_quantized_grids.py: constants of the GGUF format. An entry holds 8 indices of 2
// bits, or 4 of 3 bits, into the grid's levels, the first in the lowest bits.
// clang-format off
namespace heed::kernels {

"""

GRIDS = (
    ("kGridIQ2XXS", quants.IQ2_XXS, 2),
    ("kGridIQ2XS", quants.IQ2_XS, 2),
    ("kGridIQ2S", quants.IQ2_S, 2),
    ("kGridIQ3XXS", quants.IQ3_XXS, 3),
    ("kGridIQ3S", quants.IQ3_S, 3),
    ("kGridIQ1", quants.IQ1_S, 2),
)


def packed(kind, bits):
    kind.init_grid()
    grid = kind.grid.reshape(kind.grid_shape)
    levels = {float(level): index for index, level in enumerate(kind.grid_map)}
    return [sum(levels[float(value)] << (bits * i) for i, value in enumerate(row)) for row in np.asarray(grid)]


def main():
    text = HEAD
    for name, kind, bits in GRIDS:
        values = packed(kind, bits)
        text += f"inline constexpr uint16_t {name}[{len(values)}] = {{\n"
        for i in range(0, len(values), 14):
            text += "    " + ", ".join(f"{value}" for value in values[i : i + 14]) + ",\n"
        text += "};\n\n"
    text += "}  // namespace heed::kernels\n// clang-format on\n"
    path = pathlib.Path(__file__).parent.parent / "src" / "kernels" / "quantized_grids.h"
    path.write_text(text)


if __name__ == "__main__":
    main()
