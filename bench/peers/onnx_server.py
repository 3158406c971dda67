"""Embeddings as people serve them without heed: FastAPI around ONNX Runtime's fused graph.

    onnx_server.py FOLDER PORT     FOLDER: a BERT encoder with tokenizer.json

One request, one run: mean of the last states, of length 1.
"""
import os
import sys
import tempfile

import numpy as np
import onnxruntime
import uvicorn
from fastapi import FastAPI, Request
from tokenizers import Tokenizer

from peer_onnx import build

folder, port = sys.argv[1], int(sys.argv[2])
file = os.path.join(tempfile.mkdtemp(), "model.onnx")
build(folder, True, file)
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = os.cpu_count()
session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
tokenizer = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
tokenizer.no_truncation()
tokenizer.enable_padding()
app = FastAPI()


def embed(texts):
    batch = tokenizer.encode_batch(texts)
    ids = np.array([each.ids for each in batch], np.int64)
    mask = np.array([each.attention_mask for each in batch], np.int64)
    states = session.run(None, {"input_ids": ids, "attention_mask": mask})[0]
    sums = (states * mask[:, :, None]).sum(1)
    return sums / np.linalg.norm(sums, axis=1, keepdims=True), int(mask.sum())


@app.get("/health")
def health():
    return {"status": "ok"}


@app.post("/v1/embeddings")
async def embeddings(request: Request):
    import asyncio

    body = await request.json()
    texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
    vectors, tokens = await asyncio.to_thread(embed, texts)
    return {"object": "list", "data": [{"object": "embedding", "index": i, "embedding": v.tolist()} for i, v in enumerate(vectors)],
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens}}


uvicorn.run(app, host="127.0.0.1", port=port, log_level="error")
