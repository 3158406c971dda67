"""One-liners, streams and a server: python pipelines.py MODEL."""

from __future__ import annotations

import asyncio
import sys

import heed


async def read(model: heed.Model, prompt: str) -> str:
    pieces: list[str] = []
    async for piece in model.generate(prompt, max_new_tokens=20):
        pieces.append(piece)
    return "".join(pieces)


def main(path: str) -> None:
    generate = heed.pipeline("text-generation", path)
    print(generate("the quick", max_new_tokens=20)[0]["generated_text"])
    for piece in generate.stream("the quick", max_new_tokens=20, temperature=0.8, seed=1):
        print(piece, end="", flush=True)
    print()
    model = heed.load(path)
    print(asyncio.run(read(model, "the quick")))
    with heed.serve(path) as server:
        print(server.url.startswith("http://127.0.0.1:"))


if __name__ == "__main__":
    main(sys.argv[1])
