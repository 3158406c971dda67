#!/usr/bin/env python3
"""heed serve compared with other servers, in one run, in turn.

    bench/serve_peers.py --heed build/heed [--gguf MODEL.gguf] [--encoder FOLDER] [--rounds 3] [--dtype bf16] [--json FILE]

Chat: streamed answers of the same GGUF with 1, 4, 16 and 64 clients against llama-cpp-python's
server, and a llama-server where one is on the PATH. Embeddings of mixed lengths with 64 clients
against FastAPI around ONNX Runtime. Prints the medians of the rounds and heed's ratio. Needs the
peers' Python packages: llama-cpp-python[server], fastapi, uvicorn, onnxruntime, onnx, tokenizers.
"""
import argparse
import asyncio
import json
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import time
import urllib.parse
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import serve_load


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Running:
    """A server as a process, ready."""

    def __init__(self, name, command, path="/health"):
        self.name, self.port = name, free_port()
        command = [part.replace("PORT", str(self.port)) for part in command]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=os.path.join(HERE, "peers"))
        self.url = f"http://127.0.0.1:{self.port}"
        for _ in range(1200):
            try:
                urllib.request.urlopen(self.url + path, timeout=2).read()
                return
            except OSError:
                if self.process.poll() is not None:
                    raise RuntimeError(f"{name} does not start: {' '.join(command)}")
                time.sleep(0.1)
        raise RuntimeError(f"{name} is not ready in time")

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()


def chat_servers(options):
    threads = str(os.cpu_count())
    yield "heed", [options.heed, "serve", f"m={options.gguf}", "--port", "PORT", "--slots", "64", "--quiet", "--dtype", options.dtype], "/health"
    yield "llama-cpp-python", [sys.executable, "-m", "llama_cpp.server", "--model", options.gguf, "--port", "PORT", "--n_threads", threads,
                               "--n_threads_batch", threads, "--n_ctx", "2048", "--model_alias", "m",
                               "--interrupt_requests", "false"], "/v1/models"  # its default cuts a stream when another request comes
    if shutil.which("llama-server"):
        yield "llama-server", ["llama-server", "-m", options.gguf, "--port", "PORT", "-t", threads, "-np", "16", "-c", "16384"], "/health"


def measure_chat(options):
    rows = {}
    for _ in range(options.rounds):
        for name, command, path in chat_servers(options):
            server = Running(name, command, path)
            try:
                warm = argparse.Namespace(model="m", prompt="warm", max_tokens=4, api_key=None, chat=True, requests=2)
                asyncio.run(serve_load.measure(warm, urllib.parse.urlparse(server.url), 1))
                for clients in options.clients:
                    load = argparse.Namespace(model="m", prompt=options.prompt, max_tokens=options.max_tokens, api_key=None, chat=True,
                                              requests=max(2 * clients, options.requests))
                    result = asyncio.run(serve_load.measure(load, urllib.parse.urlparse(server.url), clients))
                    rows.setdefault((clients, name), []).append(result)
            finally:
                server.stop()
    return rows


async def embedding_client(host, port, texts, spent):
    reader, writer = await asyncio.open_connection(host, port)
    while texts:
        data = json.dumps({"input": texts.pop(), "model": "m"}).encode()
        start = time.perf_counter()
        writer.write(f"POST /v1/embeddings HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
        status = int((await reader.readline()).split()[1])
        length = 0
        while (line := await reader.readline()) != b"\r\n":
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        await reader.readexactly(length)
        spent.append((status, time.perf_counter() - start))
    writer.close()


async def measure_embeddings(port, texts, clients):
    spent, start = [], time.perf_counter()
    texts = list(texts)
    await asyncio.gather(*(embedding_client("127.0.0.1", port, texts, spent) for _ in range(clients)))
    seconds = time.perf_counter() - start
    times = [t for _, t in spent]
    return {"texts_per_second": len(spent) / seconds, "failed": sum(s != 200 for s, _ in spent),
            "p50": serve_load.percentile(times, 0.5), "p99": serve_load.percentile(times, 0.99)}


def embedding_rows(options):
    random.seed(1)
    words = "the quick brown fox jumps over a lazy dog while seven wizards box with eleven large jugs".split()
    texts = [" ".join(random.choices(words, k=random.randint(3, 120))) for _ in range(options.texts)]
    servers = [("heed", [options.heed, "serve", f"m={options.encoder}", "--port", "PORT", "--quiet", "--dtype", options.dtype]),
               ("FastAPI + ONNX Runtime", [sys.executable, "onnx_server.py", options.encoder, "PORT"])]
    rows = {}
    for _ in range(options.rounds):
        for name, command in servers:
            server = Running(name, command)
            try:
                asyncio.run(measure_embeddings(server.port, texts[:32], 8))
                rows.setdefault(name, []).append(asyncio.run(measure_embeddings(server.port, texts, 64)))
            finally:
                server.stop()
    return rows


def median(results, key):
    values = [r[key] for r in results if r[key] is not None]
    return statistics.median(values) if values else float("nan")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--heed", required=True)
    parser.add_argument("--gguf")
    parser.add_argument("--encoder")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 16, 64])
    parser.add_argument("--requests", type=int, default=8)
    parser.add_argument("--texts", type=int, default=512)
    parser.add_argument("--max-tokens", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--prompt", default="Tell me a long story about a little fox who wants to see the sea.")
    parser.add_argument("--dtype", default="f32", help="what heed computes in; the peers compute in f32")
    parser.add_argument("--json")
    options = parser.parse_args()
    for name in ("heed", "gguf", "encoder"):
        if getattr(options, name):
            setattr(options, name, os.path.abspath(getattr(options, name)))
    document = {}
    if options.gguf:
        rows = measure_chat(options)
        print(f"{'clients':>7}  {'server':<18} {'tokens/s':>9} {'first p50':>10} {'first p99':>10} {'token p99':>10} {'failed':>6}  ratio")
        for (clients, name), results in sorted(rows.items(), key=lambda item: item[0][0]):
            own = median(rows[(clients, "heed")], "tokens_per_second")
            rate = median(results, "tokens_per_second")
            print(f"{clients:>7}  {name:<18} {rate:>9.1f} {median(results, 'first_token_p50'):>10.3f} {median(results, 'first_token_p99'):>10.3f} "
                  f"{median(results, 'token_p99'):>10.4f} {sum(r['failed'] for r in results):>6}  {own / rate if rate else float('nan'):.2f}")
        document["chat"] = {f"{clients} {name}": results for (clients, name), results in rows.items()}
    if options.encoder:
        rows = embedding_rows(options)
        for name, results in rows.items():
            rate = median(results, "texts_per_second")
            print(f"embeddings, 64 clients  {name:<24} {rate:>8.1f} texts/s  p50 {median(results, 'p50'):.3f} s  p99 {median(results, 'p99'):.3f} s  "
                  f"failed {sum(r['failed'] for r in results)}  ratio {median(rows['heed'], 'texts_per_second') / rate:.2f}")
        document["embeddings"] = rows
    if options.json:
        with open(options.json, "w") as out:
            json.dump(document, out, indent=1)


if __name__ == "__main__":
    main()
