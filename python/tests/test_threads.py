"""Several threads at once, with the GIL and without it (free-threaded Python): results are those of one thread."""
import concurrent.futures
import pathlib
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time

import pytest

import heed

FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


def test_four_threads_generate_at_once_on_one_model(lm):
    model = heed.load(lm)
    prompts = ["the quick", "brown fox", "lazy", "over the"]
    alone = ["".join(model.generate(p, max_new_tokens=30)) for p in prompts]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda p: "".join(model.generate(p, max_new_tokens=30)), prompts * 4))
    assert together == alone * 4


def train_a_little(seed):
    """Weights after a few steps; random numbers are a thread's own."""
    heed.manual_seed(seed)
    model = heed.nn.Sequential(heed.nn.Linear(8, 16), heed.nn.Dropout(0.1), heed.nn.Linear(16, 2))
    optimizer = heed.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(10):
        loss = (model(heed.randn(4, 8)) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return [parameter.tolist() for parameter in model.parameters()]


def test_threads_train_by_themselves_and_share_a_layer():
    layer = heed.nn.TransformerBlock(32, 4)
    x = heed.randn(2, 8, 32)

    def both(seed):
        return layer(x).tolist(), train_a_little(seed)

    expected = [both(seed) for seed in range(4)]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            assert list(pool.map(both, range(4))) == expected


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoder")
    tokenizer = heed.Tokenizer.train(["the quick brown fox jumps over the lazy dog"] * 3, "wordpiece:60", min_frequency=1)
    config = {"model_type": "bert", "architectures": ["BertModel"], "hidden_size": 32, "num_hidden_layers": 2,
              "num_attention_heads": 4, "intermediate_size": 64, "max_position_embeddings": 64, "vocab_size": tokenizer.vocab_size}
    heed.create_model(config, seed=1, tokenizer=tokenizer).save(folder)
    return folder


def test_threads_generate_embed_record_and_train_at_once(lm, encoder, tmp_path):
    """One model of each kind for all threads; every result is, bit for bit, that of a thread by itself."""
    model, embed = heed.load(lm), heed.pipeline("feature-extraction", encoder)
    words = ["the quick", "brown fox", "lazy dog", "over the"]
    text = tmp_path / "text.txt"
    text.write_text("the quick brown fox jumps over the lazy dog\n" * 50)

    def generate(i):
        return "".join(model.generate(words[i], max_new_tokens=20, temperature=0.8, seed=i))

    def vectors(i):
        return embed([words[i], words[i - 1]]).tolist()

    def record(i):
        with heed.record() as recorded:
            model([model.tokenizer.encode(words[i])])
        return recorded.attention(layer=1).tolist(), {name: each.tolist() for name, each in recorded.activations.items()}

    def run(i):
        folder = pathlib.Path(tempfile.mkdtemp(dir=tmp_path), "run")
        heed.train("lm", text, folder, tokenizer="char", layers=1, heads=2, width=16, context=16, batch=2, steps=4, seed=i, progress=False)
        return (folder / "model" / "model.safetensors").read_bytes()

    jobs = [(job, i) for job in (generate, vectors, record, train_a_little, run) for i in range(4)]
    alone = [job(i) for job, i in jobs]
    assert len({bytes(each) for (job, _), each in zip(jobs, alone) if job is run}) == 4  # the seed matters
    start = threading.Barrier(len(jobs))

    def together(at):
        job, i = jobs[at]
        start.wait()
        return [job(i) for _ in range(3)]

    with concurrent.futures.ThreadPoolExecutor(len(jobs)) as pool:
        for (job, i), expected, found in zip(jobs, alone, pool.map(together, range(len(jobs)))):
            assert found == [expected] * 3, f"{job.__name__}({i})"
    assert not FREE_THREADED or not sys._is_gil_enabled()


def test_threads_that_read_one_stream_share_its_pieces(lm):
    model = heed.load(lm)
    whole = list(model.generate("the quick", max_new_tokens=200))
    stream, start = model.generate("the quick", max_new_tokens=200), threading.Barrier(4)

    def read(_):
        start.wait()
        return list(stream)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        pieces = [piece for part in pool.map(read, range(4)) for piece in part]
    assert sorted(pieces) == sorted(whole) and stream.result["text"] == "".join(whole)


def test_a_decorated_function_has_a_scope_in_every_thread():
    """One thread is inside no_grad() already and leaves last: the other's state is not taken for its own."""
    first_in, second_in, first_out = threading.Event(), threading.Event(), threading.Event()

    @heed.no_grad()
    def inside(here, other):
        here.set()
        assert other.wait(60)
        return heed.is_grad_enabled()

    def first():
        return inside(first_in, second_in), heed.is_grad_enabled(), first_out.set()

    def second():
        with heed.no_grad():
            assert first_in.wait(60)
            return inside(second_in, first_out), heed.is_grad_enabled()

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(first), pool.submit(second)]
        assert [each.result() for each in futures] == [(False, True, None), (False, False)]
    with heed.no_grad():
        assert not heed.is_grad_enabled()
    assert heed.is_grad_enabled()


def test_the_module_leaves_the_gil_off():
    if not FREE_THREADED:
        pytest.skip("this Python has a GIL")
    code = "import sys, heed; heed.ones(2).numpy(); print(sys._is_gil_enabled())"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "False\n"


def test_other_threads_run_during_a_long_call():
    """Every call that takes long must let go of the GIL: a second thread counts meanwhile."""
    if FREE_THREADED:
        pytest.skip("this Python has no GIL to keep")
    a = heed.randn(700, 700, requires_grad=True)
    layer = heed.nn.TransformerBlock(256, 4)
    x = heed.randn(4, 256, 256)
    loss, big = (a @ a @ a).sum(), heed.randn(2000, 1000)
    parameters = [heed.randn(1000, 1000, requires_grad=True) for _ in range(4)]
    for parameter in parameters:
        parameter.grad = parameter.detach()
    optimizer = heed.optim.AdamW(parameters)
    calls = {
        "matmul": lambda: a @ a,
        "exp": lambda: heed.exp(heed.randn(2_000_000)),
        "softmax": lambda: heed.softmax(big, -1),
        "block": lambda: layer(x),
        "backward": lambda: loss.backward(retain_graph=True),
        "attention": lambda: heed.attention(x, x, x),
        "optimizer": optimizer.step,
        "cross_entropy": lambda: heed.nn.functional.cross_entropy(a, heed.zeros(700, dtype=heed.int64)),
    }
    count, stop = [0], threading.Event()

    def tick():
        while not stop.is_set():
            count[0] += 1
            time.sleep(1e-4)

    # With this interval the GIL changes hands only where somebody lets go of it: a call that keeps it
    # leaves the count as it is.
    before = sys.getswitchinterval()
    sys.setswitchinterval(100)
    thread = threading.Thread(target=tick)
    thread.start()
    try:
        for name, call in calls.items():
            for _ in range(300):
                start = count[0]
                call()
                if count[0] > start:
                    break
            else:
                pytest.fail(f"{name} kept the GIL")
    finally:
        stop.set()
        sys.setswitchinterval(before)
        thread.join()
