"""The package as its users call it; references are NumPy's own lines."""
import pickle
import subprocess
import sys

import numpy as np
import pytest

import heed


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@pytest.fixture(scope="module")
def lm(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lm")
    text = folder / "text.txt"
    text.write_text("the quick brown fox jumps over the lazy dog\n" * 200)
    result = heed.train("lm", text, folder / "run", tokenizer="char", layers=2, heads=2, width=32,
                        context=32, batch=4, steps=5)
    assert result["steps"] == 5 and np.isfinite(result["loss"])
    return folder / "run"


def test_version():
    assert heed.__version__.count(".") == 2


@pytest.mark.parametrize("shape", [(5, 8), (2, 5, 8), (2, 3, 5, 8)])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_is_the_formula(shape, causal):
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal(shape, dtype=np.float32) for _ in range(3))
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(shape[-1])
    if causal:
        scores = np.where(np.tril(np.ones((5, 5), bool)), scores, -np.inf)
    expected = softmax(scores)
    output, weights = heed.attention(q, k, v, causal=causal)
    np.testing.assert_allclose(weights, expected, atol=1e-6)
    np.testing.assert_allclose(output, expected @ v, atol=1e-5)


def test_mask():
    q = np.random.default_rng(1).standard_normal((4, 8)).astype(np.float32)
    mask = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [1, 1, 1, 1]])
    _, weights = heed.attention(q, q, q, mask)
    assert (weights[mask == 0] == 0).all()
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-6)


def test_bad_shapes_are_errors():
    with pytest.raises(heed.Error):
        heed.attention(np.ones((2, 3)), np.ones((2, 4)), np.ones((2, 4)))


def test_model_and_recorder(lm):
    model = heed.load(lm)
    assert model.model_type == "gpt2" and model.num_parameters > 0
    ids = model.tokenizer.encode("the quick")
    with heed.record() as r:
        result = model(input_ids=[ids])
    assert result["logits"].shape[:2] == (1, len(ids))
    weights = r.attention(layer=1, head=0)
    assert weights.shape == (len(ids), len(ids))
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
    assert np.triu(weights, 1).max() == 0
    assert any(name.endswith("hook_resid_post") for name in r.activations)
    with pytest.raises(IndexError):
        r.attention(layer=9)


def test_same_bits_alone_and_in_a_batch(lm):
    model = heed.load(lm)
    ids = model.tokenizer.encode("the quick brown")
    alone = model(input_ids=[ids])["logits"][0]
    both = model(input_ids=[ids, ids[::-1]])["logits"][0]
    assert (alone == both).all()


def test_generation_and_streaming(lm):
    generate = heed.pipeline("text-generation", lm)
    whole = generate("the quick", max_new_tokens=12)[0]["generated_text"]
    assert whole.startswith("the quick")
    pieces = list(generate.stream("the quick", max_new_tokens=12))
    assert "the quick" + "".join(pieces) == whole
    stream = generate.stream("the quick", max_new_tokens=1000)
    next(stream)
    stream.close()


def test_tokenizer(lm):
    tokenizer = heed.Tokenizer.load(str(lm / "model"))
    assert tokenizer.decode(tokenizer.encode("quick fox")) == "quick fox"
    assert len(tokenizer) == tokenizer.vocab_size


def test_pickle(lm):
    model = heed.load(lm)
    again = pickle.loads(pickle.dumps(model))
    assert again.num_parameters == model.num_parameters


def test_import_is_quick():
    code = "import numpy, time; before = time.process_time(); import heed; print(time.process_time() - before)"
    seconds = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert float(seconds) < 0.5  # of the processor; 0.04 measured


def test_unknown_task_is_named(lm):
    with pytest.raises(heed.Error, match="text-generation"):
        heed.pipeline("nonsense", lm)
