"""Models, pipelines, streams, servers, notebooks' pictures."""
import asyncio
import json
import os
import pickle
import subprocess
import sys
import types
import urllib.request

import numpy as np
import pytest

import heed
from heed import notebook


def test_version():
    assert heed.__version__.count(".") == 2


def test_model_and_recorder(lm):
    model = heed.load(lm)
    assert model.model_type == "gpt2" and model.num_parameters > 0 and model.config["n_layer"] == 2
    ids = model.tokenizer.encode("the quick")
    with heed.record() as r:
        result = model(input_ids=[ids])
    assert result["logits"].shape[:2] == (1, len(ids)) and result.loss is None
    weights = r.attention(layer=1, head=0)
    assert isinstance(weights, np.ndarray) and weights.shape == (len(ids), len(ids))
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
    assert np.triu(weights, 1).max() == 0
    assert r.attention(layer=1).shape == (2, len(ids), len(ids))
    assert any(name.endswith("hook_resid_post") for name in r.activations)
    with pytest.raises(IndexError, match="layer 9; there are self 0, self 1"):
        r.attention(layer=9)
    with pytest.raises(TypeError, match="no input 'input_words'"):
        model(input_words=[ids])


def test_inputs_may_be_lists_arrays_or_tensors(lm):
    model = heed.load(lm)
    ids = model.tokenizer.encode("the quick brown")
    logits = [model(form).logits.numpy() for form in ([ids], np.array([ids]), np.array([ids], np.int32), heed.tensor([ids]))]
    assert all((each == logits[0]).all() for each in logits)
    with pytest.raises((TypeError, ValueError)):
        model([[1, 2], [3]])


def test_same_bits_alone_and_in_a_batch(lm):
    model = heed.load(lm)
    ids = model.tokenizer.encode("the quick brown")
    alone = model(input_ids=[ids])["logits"][0]
    both = model(input_ids=[ids, ids[::-1]])["logits"][0]
    assert (alone == both).all()


def test_open_training_loop(lm, tmp_path):
    model = heed.load(lm, trainable=True)
    ids = heed.tensor([model.tokenizer.encode("the quick brown fox")])
    optimizer = heed.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(8):
        loss = model(ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    model.save(tmp_path / "saved")
    again = heed.load(tmp_path / "saved")
    assert (again(ids).logits == model.eval()(ids).logits).all()


def test_generation_and_streaming(lm):
    generate = heed.pipeline("text-generation", lm)
    whole = generate("the quick", max_new_tokens=12)[0]["generated_text"]
    assert whole.startswith("the quick")
    stream = generate.stream("the quick", max_new_tokens=12)
    assert "the quick" + "".join(stream) == whole
    assert len(stream.result["ids"]) == 12 and stream.result["finish_reason"] == "length"
    assert "".join(heed.load(lm).generate("the quick", max_new_tokens=12)) == whole[len("the quick"):]
    with pytest.raises(heed.Error, match="max_new_tokens"):
        generate.stream("the quick", max_tokens=3)


def test_bytes_that_are_no_text(tmp_path):
    tokenizer = heed.Tokenizer.train(["the quick brown fox"] * 3, "bpe:300", min_frequency=1)
    config = {"model_type": "gpt2", "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 128, "vocab_size": tokenizer.vocab_size}
    heed.create_model(config, seed=1, tokenizer=tokenizer).save(tmp_path)  # its bytes are random
    options = {"max_new_tokens": 80, "temperature": 1.0, "seed": 3}
    stream = heed.load(tmp_path).generate("the", **options)
    text = "".join(stream)
    assert "\ufffd" in text and stream.result["text"] == text
    [whole] = heed.pipeline("text-generation", tmp_path)("the", **options)
    assert whole["generated_text"] == "the" + text
    assert "\ufffd" in tokenizer.decode(list(range(tokenizer.vocab_size)))


def test_closing_a_stream_stops_within_a_token(lm):
    stream = heed.load(lm).generate("the quick", max_new_tokens=1000)
    for _ in range(3):
        next(stream)
    tokens = len(stream.result["ids"])
    stream.close()
    assert tokens <= 4  # one token per piece; nothing was computed ahead
    assert list(stream) == []


def test_async_streaming(lm):
    model = heed.load(lm)

    async def read():
        pieces = []
        stream = model.generate("the quick", max_new_tokens=200)
        async for piece in stream:
            pieces.append(piece)
            if len(pieces) == 5:
                await stream.aclose()
        return pieces, len(stream.result["ids"])

    async def both():
        return await asyncio.gather(read(), read())

    (first, tokens), (second, _) = asyncio.run(both())
    assert first == second and len(first) == 5 and tokens <= 6


def test_tokenizer(lm, tmp_path):
    tokenizer = heed.Tokenizer.load(lm / "model")
    assert tokenizer.decode(tokenizer.encode("quick fox")) == "quick fox"
    assert len(tokenizer) == tokenizer.vocab_size
    assert tokenizer("fox")["input_ids"] == tokenizer.encode("fox")
    assert pickle.loads(pickle.dumps(tokenizer)).encode("fox") == tokenizer.encode("fox")
    trained = heed.Tokenizer.train(["안녕하세요 세계", "hello world"] * 3, "wordpiece:200", min_frequency=1)
    assert trained.decode(trained.encode("hello 세계")) == "hello 세계"
    trained.save(tmp_path)
    assert heed.Tokenizer.load(tmp_path).encode("hello") == trained.encode("hello")
    with pytest.raises(ValueError, match="save"):
        pickle.dumps(trained)


def test_pickle(lm):
    model = heed.load(lm)
    ids = [model.tokenizer.encode("the fox")]
    again = pickle.loads(pickle.dumps(model))
    assert (again(ids).logits == model(ids).logits).all()
    generate = pickle.loads(pickle.dumps(heed.pipeline("text-generation", lm)))
    assert generate("the", max_new_tokens=3)
    with pytest.raises(TypeError, match="save"):
        pickle.dumps(heed.create_model({"model_type": "gpt2", "n_embd": 8, "n_layer": 1, "n_head": 1, "n_positions": 4, "vocab_size": 5}))


def test_unknown_names_are_named(lm):
    with pytest.raises(heed.Error, match="text-generation"):
        heed.pipeline("nonsense", lm)
    with pytest.raises(heed.Error, match="no-such-folder"):
        heed.load("/no-such-folder")


def test_pipelines_have_hugging_faces_shapes(tmp_path):
    data = tmp_path / "d.tsv"
    data.write_text("".join(f"{'good' if i % 2 else 'bad'}\t{'nice' if i % 2 else 'awful'} film {i}\n" for i in range(60)))
    run = heed.train("classify", data, tmp_path / "run", tokenizer="wordpiece:100", layers=1, heads=2, width=16, steps=20, batch=8)
    classify = heed.pipeline("text-classification", tmp_path / "run")
    result = classify(["nice film 3", "awful film 2"])
    assert len(result) == 2 and set(result[0][0] if isinstance(result[0], list) else result[0]) == {"label", "score"}
    assert "<svg" in run._repr_html_() and run.metrics[-1]["step"] == 20
    vectors = heed.pipeline("feature-extraction", tmp_path / "run")(["a", "b"])
    assert vectors.shape == (2, 16)


def test_hugging_face_cache(lm, tmp_path, monkeypatch):
    import shutil

    snapshot = tmp_path / "hub" / "models--me--tiny" / "snapshots" / "abc"
    shutil.copytree(lm / "model", snapshot)
    (tmp_path / "hub" / "models--me--tiny" / "refs").mkdir()
    (tmp_path / "hub" / "models--me--tiny" / "refs" / "main").write_text("abc")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    assert heed.load("me/tiny").model_type == "gpt2"
    with pytest.raises(heed.Error, match="me/absent"):
        heed.load("me/absent")


def test_gguf(tmp_path):
    program = os.environ.get("HEED_PROGRAM") or pytest.skip("HEED_PROGRAM names no heed to convert with")
    tokenizer = heed.Tokenizer.train(["the quick brown fox jumps"] * 3, "bpe:300", min_frequency=1)
    config = {"model_type": "llama", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64,
              "max_position_embeddings": 64, "vocab_size": tokenizer.vocab_size}
    model = heed.create_model(config, seed=1, tokenizer=tokenizer)
    model.save(tmp_path / "folder")
    subprocess.run([program, "convert", tmp_path / "folder", tmp_path / "m.gguf", "--quiet"], check=True)
    opened = heed.load(tmp_path / "m.gguf")
    ids = opened.tokenizer.encode("the quick fox")
    assert ids == tokenizer.encode("the quick fox")
    np.testing.assert_array_equal(opened([ids]).logits.numpy(), heed.load(tmp_path / "folder")([ids]).logits.numpy())
    assert len("".join(opened.generate("the", max_new_tokens=3))) > 0


def test_progress_by_tqdm(monkeypatch, tmp_path):
    bars = []

    class Bar:  # as much of tqdm as is used
        def __init__(self, **options):
            self.n, self.total, self.closed, self.shown = 0, None, False, {}
            bars.append(self)

        def update(self, by):
            self.n += by

        def set_postfix(self, values, refresh):
            self.shown = values

        def close(self):
            self.closed = True

    monkeypatch.setitem(sys.modules, "tqdm", types.ModuleType("tqdm"))
    monkeypatch.setitem(sys.modules, "tqdm.auto", types.SimpleNamespace(tqdm=Bar))
    (tmp_path / "t.txt").write_text("the quick brown fox\n" * 50)
    options = {"tokenizer": "char", "layers": 1, "heads": 1, "width": 8, "context": 8, "batch": 2, "steps": 4}
    heed.train("lm", tmp_path / "t.txt", tmp_path / "run", **options)
    [bar] = bars
    assert (bar.n, bar.total, bar.closed) == (4, 4, True) and float(bar.shown["loss"]) > 0
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)  # not installed
    assert heed.train("lm", tmp_path / "t.txt", tmp_path / "again", **options)["steps"] == 4


def test_server_in_a_thread(lm):
    with heed.serve(f"tiny={lm}") as server:
        assert server.port > 0
        body = json.dumps({"model": "tiny", "prompt": "the", "max_tokens": 4, "temperature": 0}).encode()
        request = urllib.request.Request(f"{server.url}/v1/completions", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            text = json.load(answer)["choices"][0]["text"]
        assert text == "".join(heed.load(lm).generate("the", max_new_tokens=4))
    with pytest.raises(OSError):
        urllib.request.urlopen(f"{server.url}/health", timeout=5)


# Pictures -----------------------------------------------------------------------------------------------


def test_pictures_need_no_network(lm, tmp_path):
    model = heed.load(lm)
    with heed.record() as r:
        model([model.tokenizer.encode("the fox")])
    pages = [r._repr_html_(), r.view(model.tokenizer.labels("the fox"))._repr_html_(), model.explore("the fox")._repr_html_(),
             model._repr_html_(), notebook.show_tokens(model.tokenizer, "the fox")._repr_html_()]
    for page in pages[:3]:
        assert page.startswith("<iframe srcdoc=")
    for page in pages:
        for outside in ("src=&quot;http", "href=&quot;http", "src=\"http", "@import", "cdn."):
            assert outside not in page
    view = heed.AttentionView([("self", 0, 0, np.eye(3))], ["a", "b", "<c>"])
    view.save(tmp_path / "a.html")
    assert "<c>" not in (tmp_path / "a.html").read_text()
    assert notebook.heatmap(np.eye(3))._repr_svg_().startswith("<svg")
    assert notebook.plot({"loss": [3, 2, 1]})._repr_svg_().startswith("<svg")


def test_patterns():
    assert heed.attention_patterns(np.eye(6, dtype=np.float32)).name == "diagonal"
    assert heed.validate_weights(np.eye(6, dtype=np.float32), causal=True) == []
    assert heed.validate_weights(np.full((2, 2), 0.9, np.float32)) != []
