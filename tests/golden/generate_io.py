"""Reference values for src/io and quantisation: ggml's blocks, Pillow's resized images.

python tests/golden/generate_io.py; needs llama-cpp-python (for ggml's library), Pillow, numpy, safetensors.
"""

import ctypes
import pathlib

import llama_cpp
import numpy as np
from PIL import Image
from safetensors.numpy import save_file

FOLDER = pathlib.Path(__file__).parent / "io"


def quantized():
    """x [rows, 64] and the bytes of its q8_0 and q4_0 rows by ggml's reference functions."""
    library = pathlib.Path(llama_cpp.__file__).parent / "lib" / "libggml-base.so"
    ggml = ctypes.CDLL(str(library))
    generator = np.random.default_rng(1)
    x = generator.standard_normal((32, 64)).astype(np.float32)
    x[1] *= 1e-4
    x[2] *= 1e4
    x[3] = np.round(x[3] * 4) / 4
    x[4] = 0
    x[5, 1:] = 0
    x[6] = np.repeat([-1, 1], 32)
    x[7] = np.tile([1, -1], 32)
    x[8] = np.arange(64) - 32
    x[9] = np.linspace(-127, 127, 64) / 2

    def run(name, block_bytes):
        out = np.zeros((x.shape[0], x.shape[1] // 32 * block_bytes), np.uint8)
        function = getattr(ggml, name)
        function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
        function(x.ctypes.data, out.ctypes.data, x.size)
        return out

    save_file(
        {"x": x, "q8_0": run("quantize_row_q8_0_ref", 34), "q4_0": run("quantize_row_q4_0_ref", 18)},
        FOLDER / "quantized.safetensors",
    )


def resized():
    """image u8 [H, W, 3] and what Pillow makes of it, named <filter>_<height>x<width>."""
    rows, columns = np.mgrid[0:23, 0:37]
    image = np.stack(
        [
            (rows * 11) % 256,
            (columns * 7 + rows * rows) % 256,
            ((rows // 4 + columns // 4) % 2) * 255,
        ],
        axis=-1,
    ).astype(np.uint8)
    tensors = {"image": image}
    for name, resample in (("bilinear", Image.Resampling.BILINEAR), ("bicubic", Image.Resampling.BICUBIC)):
        for height, width in ((23, 37), (8, 8), (32, 32), (50, 10), (5, 80), (20, 36), (20, 35), (1, 1)):
            result = Image.fromarray(image).resize((width, height), resample)
            tensors[f"{name}_{height}x{width}"] = np.asarray(result).copy()
    save_file(tensors, FOLDER / "resized.safetensors")


def images():
    """The same small picture in the formats that are read, with its pixels."""
    rows, columns = np.mgrid[0:5, 0:7]
    rgb = np.stack([rows * 40, columns * 30, rows * 10 + columns], axis=-1).astype(np.uint8)
    alpha = np.full((5, 7, 1), 255, np.uint8)
    Image.fromarray(rgb).save(FOLDER / "rgb.png")
    Image.fromarray(np.concatenate([rgb, alpha], -1)).save(FOLDER / "rgba.png")
    Image.fromarray(rgb[..., 0]).save(FOLDER / "gray.png")
    Image.fromarray(rgb[..., 0].astype(np.uint16) * 257).save(FOLDER / "gray16.png")
    Image.fromarray(rgb).quantize(64).save(FOLDER / "palette.png")
    Image.fromarray(rgb[..., 0] > 60).save(FOLDER / "bits.png")
    Image.fromarray(rgb).save(FOLDER / "rgb.jpg", quality=95, subsampling=0)
    Image.fromarray(rgb[..., 0]).save(FOLDER / "gray.jpg", quality=95)
    Image.fromarray(rgb).save(FOLDER / "rgb.ppm")
    Image.fromarray(rgb[..., 0]).save(FOLDER / "gray.pgm")
    tensors = {"rgb": rgb, "gray": rgb[..., 0].copy()}
    for name in ("palette.png", "bits.png", "rgb.jpg", "gray.jpg"):
        mode = "RGB" if name in ("palette.png", "rgb.jpg") else "L"
        tensors[name] = np.asarray(Image.open(FOLDER / name).convert(mode)).copy()
    save_file(tensors, FOLDER / "pixels.safetensors")
    np.save(FOLDER / "f32.npy", np.arange(6, dtype=np.float32).reshape(2, 3))
    np.save(FOLDER / "i64_fortran.npy", np.asfortranarray(np.arange(6, dtype=np.int64).reshape(2, 3)))


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    quantized()
    resized()
    images()
