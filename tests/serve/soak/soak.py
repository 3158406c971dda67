"""Hostile and honest clients against one server: soak.py PORT PID SECONDS.

128 connections: honest requests of every kind, slow readers, clients that go away, bad requests,
slow headers. Fails where an honest request is answered with 5xx or not at all, where /health takes
long, or where the server's memory or descriptors grow from one third of the time to the end. The prompts
that a server keeps to share them (256 MiB per model) are filled before, so that what grows is a leak.
"""
import asyncio
import json
import os
import random
import sys
import time

port, process, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
end = 0.0
counts, failures, health = {}, [], []
SPARE = 16 << 20  # bytes: what the allocator may keep free beyond the most that was ever used


def request(body, path="/v1/completions", extra=""):
    data = json.dumps(body).encode() if isinstance(body, dict) else body
    return (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
        f"{extra}Content-Length: {len(data)}\r\n\r\n"
    ).encode() + data


async def answer(data):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        await writer.drain()
        text = await asyncio.wait_for(reader.read(), 120)
        return int(text.split(b" ", 2)[1]), text
    finally:
        writer.close()


async def honest():
    status, text = await answer(
        request({"prompt": "the quick brown " + str(random.random()), "max_tokens": random.randint(1, 40), "stream": random.random() < 0.5})
    )
    if status >= 500:
        failures.append(f"{status}: {text[-300:]!r}")
    if status == 429:
        await asyncio.sleep(0.2)


async def leaver():
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request({"prompt": "the fox", "max_tokens": 400, "stream": True}))
    await writer.drain()
    await asyncio.wait_for(reader.read(random.choice([1, 200, 2000])), 60)
    writer.transport.abort()


async def slow_reader():
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=256)
    writer.write(request({"prompt": "the fox", "max_tokens": 450, "stream": True, "n": 4, "logprobs": 5}))
    await writer.drain()
    for _ in range(random.randint(1, 20)):
        await asyncio.wait_for(reader.read(64), 60)
        await asyncio.sleep(0.1)
    writer.transport.abort()


async def slow_header():
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for byte in b"GET /health HTTP/1.1\r\nX-Slow: " + b"x" * 40:
        if writer.transport.is_closing():
            break
        writer.write(bytes([byte]))
        await asyncio.sleep(0.05)
    writer.transport.abort()


async def bad():
    data = random.choice(
        [
            request(b"{"),
            request({"prompt": 5}),
            request({"prompt": "x", "n": 10**6}),
            request({"prompt": "x", "temperature": -1}),
            request({"prompt": "x", "model": "../x"}),
            b"GET /" + b"a" * 20000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
            os.urandom(200),
        ]
    )
    try:
        status, text = await answer(data)
        if status >= 500 and status != 505:
            failures.append(f"a bad request: {status}: {text[-300:]!r}")
    except (IndexError, ConnectionError):
        pass


async def client(kind):
    while time.monotonic() < end:
        try:
            await kind()
            counts[kind.__name__] = counts.get(kind.__name__, 0) + 1
        except (ConnectionError, asyncio.IncompleteReadError):
            if kind is honest:
                failures.append("an honest request was cut")
        except asyncio.TimeoutError:
            failures.append(f"{kind.__name__}: no answer in time")


async def check_health():
    while time.monotonic() < end:
        start = time.perf_counter()
        status, _ = await answer(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        health.append(time.perf_counter() - start)
        if status != 200:
            failures.append(f"/health: {status}")
        await asyncio.sleep(0.1)


def usage():
    with open(f"/proc/{process}/statm") as file:
        memory = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return memory, len(os.listdir(f"/proc/{process}/fd"))


async def fill_shared_prompts():
    words = "the quick brown fox jumps over the lazy dog one two three four five".split()

    async def some():
        for _ in range(150):
            text = " ".join(random.choice(words) for _ in range(120))[:490]
            status, answered = await answer(request({"prompt": text, "max_tokens": 1}))
            if status != 200:
                failures.append(f"{status}: {answered[-300:]!r}")

    await asyncio.gather(*(some() for _ in range(16)))


async def main():
    global end
    start = usage()
    await fill_shared_prompts()
    filled = usage()
    end = time.monotonic() + seconds
    kinds = [honest] * 64 + [leaver] * 24 + [slow_reader] * 8 + [slow_header] * 16 + [bad] * 16
    tasks = [asyncio.create_task(client(kind)) for kind in kinds] + [asyncio.create_task(check_health())]
    await asyncio.sleep(seconds / 3)
    early = usage()
    await asyncio.gather(*tasks)
    await asyncio.sleep(2)
    late = usage()
    health.sort()
    p99 = health[int(0.99 * len(health))]
    print(json.dumps({"counts": counts, "memory": [start[0], filled[0], early[0], late[0]], "descriptors": [early[1], late[1]], "health_p99": p99}))
    if late[0] > early[0] + SPARE:
        failures.append(f"memory grew from {early[0]} to {late[0]} bytes")
    if late[1] > 64:
        failures.append(f"{late[1]} descriptors are left open")
    for failure in failures[:20]:
        print(failure, file=sys.stderr)
    sys.exit(1 if failures else 0)


asyncio.run(main())
