"""Requests through a proxy while replicas come and go: rolling.py PROXY_PORT SECONDS PID…

Sends completions, every second one streamed, from eight clients. After a third of the time the first
replica gets SIGTERM. Fails where a request is not answered with 200 or a stream is cut.
"""
import http.client
import json
import os
import signal
import sys
import threading
import time

port, seconds, processes = int(sys.argv[1]), float(sys.argv[2]), [int(each) for each in sys.argv[3:]]
end = time.monotonic() + seconds
failures, answers = [], [0]


def ask(number):
    count = number
    while time.monotonic() < end:
        count += 1
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        body = json.dumps({"prompt": f"the fox {count}", "max_tokens": 20, "stream": count % 2 == 0})
        try:
            connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json", "Host": "models.example.org"})
            answer = connection.getresponse()
            text = answer.read()
            if answer.status != 200 or (count % 2 == 0 and b"[DONE]" not in text):
                failures.append((answer.status, text[-200:]))
            answers[0] += 1
        except (OSError, http.client.HTTPException) as problem:
            failures.append(problem)
        finally:
            connection.close()


threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
for thread in threads:
    thread.start()
time.sleep(seconds / 3)
os.kill(processes[0], signal.SIGTERM)
for thread in threads:
    thread.join()
print(f"{answers[0]} answers, {len(failures)} failures")
assert answers[0] > 20 and not failures, failures[:5]
