#!/usr/bin/env python3
"""A streaming load generator for OpenAI-compatible servers; needs only Python's own library.

    bench/serve_load.py http://127.0.0.1:8080 --model lm --clients 1 4 16 64 --requests 64 [--chat]

Every client streams one /v1/completions (with --chat: /v1/chat/completions) after another. Prints
one JSON object per number of clients: tokens per second of all clients together, time to the first
text and time between pieces (median and 99th percentile, in seconds), and how many requests were
not answered with 200. Tokens are counted by the server's usage, or by pieces where it sends none.
"""
import argparse
import asyncio
import json
import time
import urllib.parse


def percentile(values, fraction):
    values = sorted(values)
    return values[min(len(values) - 1, int(fraction * len(values)))] if values else None


def text_of(choice):
    return choice["delta"].get("content") if "delta" in choice else choice.get("text")


async def stream(url, path, body, key):
    """One request: (status, time to the first text, times between pieces, tokens)."""
    start = time.perf_counter()
    reader, writer = await asyncio.open_connection(url.hostname, url.port or 80)
    data = json.dumps(body).encode()
    head = (
        f"POST {url.path.rstrip('/')}{path} HTTP/1.1\r\nHost: {url.netloc}\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n"
    )
    if key:
        head += f"Authorization: Bearer {key}\r\n"
    writer.write(head.encode() + b"\r\n" + data)
    await writer.drain()
    status = int((await reader.readline()).split()[1])
    first, last, gaps, tokens, pieces = None, start, [], 0, 0
    while line := await reader.readline():
        if not line.startswith(b"data: "):
            continue
        if line.startswith(b"data: [DONE]"):
            break
        event = json.loads(line[6:])
        if event.get("usage"):
            tokens = event["usage"]["completion_tokens"]
        if event.get("choices") and text_of(event["choices"][0]):
            pieces += 1
            now = time.perf_counter()
            if first is None:
                first = now - start
            else:
                gaps.append(now - last)
            last = now
    writer.close()
    return status, first, gaps, tokens or pieces


async def measure(options, url, clients):
    left = options.requests
    results = []
    path = "/v1/chat/completions" if options.chat else "/v1/completions"
    prompt = lambda text: {"messages": [{"role": "user", "content": text}]} if options.chat else {"prompt": text}

    async def client(number):
        nonlocal left
        while left > 0:
            left -= 1
            body = {
                "model": options.model,
                **prompt(f"{number} {options.prompt}"),
                "max_tokens": options.max_tokens,
                "temperature": 0,
                "stream": True,
                "stream_options": {"include_usage": True},
            }
            results.append(await stream(url, path, body, options.api_key))

    start = time.perf_counter()
    await asyncio.gather(*(client(number) for number in range(clients)))
    seconds = time.perf_counter() - start
    firsts = [first for _, first, _, _ in results if first is not None]
    gaps = [gap for _, _, each, _ in results for gap in each]
    return {
        "clients": clients,
        "requests": len(results),
        "failed": sum(status != 200 for status, *_ in results),
        "tokens_per_second": sum(tokens for *_, tokens in results) / seconds,
        "first_token_p50": percentile(firsts, 0.5),
        "first_token_p99": percentile(firsts, 0.99),
        "token_p50": percentile(gaps, 0.5),
        "token_p99": percentile(gaps, 0.99),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--model", required=True)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 16, 64])
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--prompt", default="Once upon a time there was a little fox who")
    parser.add_argument("--chat", action="store_true")
    parser.add_argument("--api-key")
    options = parser.parse_args()
    url = urllib.parse.urlparse(options.url)
    for clients in options.clients:
        print(json.dumps(asyncio.run(measure(options, url, clients))), flush=True)


if __name__ == "__main__":
    main()
