"""Forks, Ctrl-C, the import, types: what surrounds a library in a process."""
import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import heed

SOURCE = pathlib.Path(__file__).resolve().parents[1]


# Forks ------------------------------------------------------------------------------------------------


def work():
    a = heed.from_numpy(np.ones((300, 300), np.float32))
    return float((a @ a).sum().item())


def in_child(fn):
    """Runs fn in a forked child; its result by its exit code."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if fn() else 1)
        except BaseException:
            os._exit(2)
    for _ in range(600):
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "hangs"


def test_a_forked_child_works(lm):
    expected = work()  # the threads of this process exist
    model = heed.load(lm)
    text = "".join(model.generate("the", max_new_tokens=5))
    assert in_child(lambda: work() == expected) == 0
    assert in_child(lambda: "".join(model.generate("the", max_new_tokens=5)) == text) == 0
    assert in_child(lambda: in_child(lambda: work() == expected) == 0) == 0  # a child's child
    assert work() == expected


def test_a_fork_while_other_threads_compute(lm):
    model, stop = heed.load(lm), threading.Event()

    def busy():
        while not stop.is_set():
            work()
            list(model.generate("the", max_new_tokens=3))

    threads = [threading.Thread(target=busy) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        assert [in_child(lambda: work() > 0 and model.tokenizer.encode("fox")) for _ in range(8)] == [0] * 8
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_processes_of_multiprocessing(lm):
    work()
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert len(set(pool.starmap(work, [()] * 4))) == 1


# Ctrl-C -----------------------------------------------------------------------------------------------


def interrupted(code, ready="ready"):
    """Runs code, sends SIGINT once it has said `ready`, returns what it said after that."""
    heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # jobs of a script ignore it
    process = subprocess.Popen([sys.executable, "-u", "-c", heard + textwrap.dedent(code)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip() == ready:
            break
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=120)
    return process.returncode, rest


BIG = """
    import heed, time
    heed.manual_seed(1)
    tokenizer = heed.Tokenizer.train(["ab"], "char", min_frequency=1)
    model = heed.create_model({"model_type": "gpt2", "n_embd": 512, "n_layer": 8, "n_head": 8, "n_positions": 16384,
                               "vocab_size": tokenizer.vocab_size}, tokenizer=tokenizer).eval()
"""


@pytest.mark.parametrize(
    "call",
    ["next(model.generate('ab' * 8000, max_new_tokens=1))", "model([[1] * 16000])",
     "heed.attention(*[heed.randn(1, 8, 16384, 64)] * 3)",
     "(heed.randn(3000, 3000, requires_grad=True) @ heed.randn(3000, 100000)).sum().backward()"],
    ids=["prefill", "forward", "attention", "backward"],
)
def test_ctrl_c_stops_a_long_call(call):
    code, rest = interrupted(
        BIG
        + f"""
    print("ready")
    try:
        {call}
        print("finished")
    except KeyboardInterrupt:
        print("interrupted")
    print(heed.ones(3).sum().item())
"""
    )
    assert (code, rest.split()) == (0, ["interrupted", "3.0"])


@pytest.mark.parametrize("op", ["a @ b", "heed.nn.functional.linear(b.T, a)"], ids=["matmul", "linear"])
def test_ctrl_c_stops_inside_one_product(op):
    """Less than half of the processor time that the whole product takes."""
    code, rest = interrupted(
        f"""
    import heed, time
    def seconds(columns):
        a, b = heed.ones(3000, 3000), heed.ones(3000, columns)
        if columns > 2000:
            print("ready")
        start = time.process_time()
        try:
            {op}
            print("finished")
        except KeyboardInterrupt:
            print("interrupted")
        return time.process_time() - start
    seconds(2000)
    part = seconds(2000)
    print(seconds(60000) < 0.5 * 30 * part)
"""
    )
    assert (code, rest.split()) == (0, ["interrupted", "True"])


def test_ctrl_c_saves_a_training_run(tmp_path):
    text = tmp_path / "t.txt"
    text.write_text("the quick brown fox jumps over the lazy dog\n" * 500)
    options = f"'lm', {str(text)!r}, {str(tmp_path / 'run')!r}, tokenizer='char', layers=1, heads=2, width=16, context=16, batch=4"
    code, rest = interrupted(
        f"""
    import heed, os, threading, time

    def watch():
        metrics = {str(tmp_path / "run" / "metrics.jsonl")!r}
        while not os.path.exists(metrics) or os.path.getsize(metrics) == 0:
            time.sleep(0.01)
        print("ready")

    threading.Thread(target=watch, daemon=True).start()
    try:
        heed.train({options}, steps=1000000, eval_every=1000000, checkpoint_every=1000000)
    except KeyboardInterrupt:
        print("interrupted")
"""
    )
    assert (code, rest.split()) == (0, ["interrupted"])
    saved = list((tmp_path / "run" / "checkpoints").glob("step-*/model.safetensors"))
    assert len(saved) == 1 and int(saved[0].parent.name[5:]) > 0


# The package ------------------------------------------------------------------------------------------


def test_import_takes_little():
    # Time of the processor, which other programs hardly change; 0.02 measured. NumPy comes with the first array.
    code = "import time; before = time.process_time(); import heed, sys; print(time.process_time() - before, 'numpy' in sys.modules)"
    runs = [subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split() for _ in range(3)]
    assert {numpy for _, numpy in runs} == {"False"} and min(float(seconds) for seconds, _ in runs) < 0.1


def test_types(tmp_path):
    pytest.importorskip("mypy")
    examples = sorted((SOURCE / "examples").glob("*.py"))
    assert len(examples) >= 4
    result = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), "-p", "heed"],
        capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 0, result.stdout
    result = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), *map(str, examples)],
        capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("module", ["heed", "heed.nn", "heed.nn.module", "heed.nn.functional", "heed.nn.transformer", "heed.optim",
                                    "heed.optim.lr_scheduler", "heed.data", "heed.model", "heed.training", "heed.pipelines",
                                    "heed.notebook", "heed.retrieval"])
def test_docstrings(module):
    import doctest
    import importlib

    failed, tried = doctest.testmod(importlib.import_module(module))
    assert failed == 0 and tried > 0


def test_the_wheel_needs_nothing_of_the_system():
    """Beyond the C and C++ runtimes: no X11, GLib, MPI or Pango, which a minimal system does not have."""
    libraries = subprocess.run(["ldd", heed._heed.__file__], check=True, capture_output=True, text=True).stdout
    if "heed.libs" not in libraries:
        pytest.skip("not installed from a wheel of ./dev python")
    outside = [line.split()[0] for line in libraries.splitlines() if "=>" in line and "heed.libs" not in line]
    allowed = ("libc.so", "libm.so", "libstdc++.so", "libgcc_s.so", "libpthread.so", "libdl.so", "librt.so", "libz.so", "libexpat.so")
    assert [name for name in outside if not name.startswith(allowed)] == []
