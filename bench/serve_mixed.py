#!/usr/bin/env python3
"""Mixed requests against one server while /health is asked and slow connections stay open.

    bench/serve_mixed.py --heed build/heed --lm lm=MODEL [--encoder enc=FOLDER] [--requests 10000] [--slow 200] [--json FILE]

Every connection sends one request after another: completions (streamed and not), chat where the
model has a template, embeddings, rerank, tokenize, the model list, and bad requests that must be
refused with 4xx. Counts requests without an answer and answers of 5xx. A process of its own asks
/health twenty times per second and measures how long each answer takes. Needs only Python's own library.
"""
import argparse
import asyncio
import collections
import json
import multiprocessing
import os
import random
import socket
import subprocess
import sys
import time

import serve_load


def start(options):
    names = [options.lm] + ([options.encoder] if options.encoder else [])
    process = subprocess.Popen([options.heed, "serve", *names, "--port", "0", "--quiet"], stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        if line.startswith("listening on "):
            return process, int(line.rsplit(":", 1)[1])
    raise RuntimeError("the server does not start")


def ask_health(port, stop, times):
    """Fresh connections, as a load balancer's probe makes them."""
    data = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    taken = []
    while not stop.is_set():
        begin = time.perf_counter()
        with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
            connection.sendall(data)
            answer = b""
            while piece := connection.recv(4096):
                answer += piece
        taken.append((time.perf_counter() - begin, answer.startswith(b"HTTP/1.1 200")))
        time.sleep(0.05)
    times.put(taken)


def bodies(options):
    lm = options.lm.split("=")[0]
    words = "the quick brown fox jumps over a lazy dog while seven wizards box with eleven large jugs".split()
    text = lambda most: " ".join(random.choices(words, k=random.randint(2, most)))
    kinds = [
        lambda: ("/v1/completions", {"model": lm, "prompt": text(20), "max_tokens": random.randint(1, options.max_tokens)}),
        lambda: ("/v1/completions", {"model": lm, "prompt": text(20), "max_tokens": random.randint(1, options.max_tokens), "stream": True}),
        lambda: ("/tokenize", {"model": lm, "content": text(60)}),
        lambda: ("/v1/models", None),
        lambda: ("/v1/completions", {"model": lm, "prompt": text(5), "n": 10**6}),
        lambda: ("/v1/completions", {"model": "nothing", "prompt": "x"}),
    ]
    if options.encoder:
        encoder = options.encoder.split("=")[0]
        kinds += [
            lambda: ("/v1/embeddings", {"model": encoder, "input": text(100)}),
            lambda: ("/v1/embeddings", {"model": encoder, "input": [text(30), text(10)]}),
            lambda: ("/rerank", {"model": encoder, "query": text(5), "documents": [text(20) for _ in range(4)]}),
        ]
    random.seed(5)
    return [random.choice(kinds)() for _ in range(options.requests)]


async def read_answer(reader):
    """Status and body of one answer, with a length or in chunks."""
    status = int((await reader.readline()).split()[1])
    length, chunked = 0, False
    while (line := await reader.readline()) not in (b"\r\n", b""):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
        chunked = chunked or (name.lower() == b"transfer-encoding" and b"chunked" in value)
    body = b""
    if not chunked:
        return status, await reader.readexactly(length)
    while size := int(await reader.readline(), 16):
        body += await reader.readexactly(size)
        await reader.readline()
    await reader.readline()
    return status, body


async def client(port, work, seen, spent):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while work:
        path, body = work.pop()
        data = b"" if body is None else json.dumps(body).encode()
        head = f"{'GET' if body is None else 'POST'} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        begin = time.perf_counter()
        try:
            writer.write(head.encode() + data)
            status, answer = await asyncio.wait_for(read_answer(reader), 300)
            whole = not (body or {}).get("stream") or answer.rstrip().endswith(b"[DONE]")
            seen["lost" if not whole else f"{status // 100}xx"] += 1
            spent.append(time.perf_counter() - begin)
        except (OSError, IndexError, ValueError, asyncio.IncompleteReadError, asyncio.TimeoutError):
            seen["lost"] += 1
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.close()


async def slow(port):
    """A header that never ends; the server closes it at its deadline, and another begins."""
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n")
            while not writer.is_closing():
                await asyncio.sleep(1.0)
                writer.write(b"X-Slow: y\r\n")
                await writer.drain()
        except OSError:
            pass


async def load(options, port):
    seen, spent = collections.Counter(), []
    others = [asyncio.create_task(slow(port)) for _ in range(options.slow)]
    work = bodies(options)
    begin = time.perf_counter()
    await asyncio.gather(*(client(port, work, seen, spent) for _ in range(options.connections)))
    seconds = time.perf_counter() - begin
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    return seen, spent, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--heed", required=True)
    parser.add_argument("--lm", required=True, help="NAME=MODEL")
    parser.add_argument("--encoder", help="NAME=FOLDER")
    parser.add_argument("--requests", type=int, default=10000)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--slow", type=int, default=200)
    parser.add_argument("--max-tokens", type=int, default=16)
    parser.add_argument("--json")
    options = parser.parse_args()
    process, port = start(options)
    stop, times = multiprocessing.Event(), multiprocessing.Queue()
    prober = multiprocessing.Process(target=ask_health, args=(port, stop, times))
    prober.start()
    seen, spent, seconds = asyncio.run(load(options, port))
    stop.set()
    taken = times.get()
    prober.join()
    process.terminate()
    code = process.wait()
    health = [t for t, _ in taken]
    result = {
        "requests": options.requests, "connections": options.connections, "slow": options.slow, "seconds": seconds,
        "answers": dict(seen), "p50": serve_load.percentile(spent, 0.5), "p99": serve_load.percentile(spent, 0.99),
        "health": {"asked": len(taken), "failed": sum(not good for _, good in taken),
                   "p50": serve_load.percentile(health, 0.5), "p99": serve_load.percentile(health, 0.99), "most": max(health)},
        "exit_code": code,
    }
    print(json.dumps(result))
    if options.json:
        with open(options.json, "w") as out:
            json.dump(result, out, indent=1)
    good = seen["lost"] == 0 and seen["5xx"] == 0 and sum(seen.values()) == options.requests and result["health"]["failed"] == 0 and code == 0
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
