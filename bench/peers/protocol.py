"""How run.py talks to a worker: one line of JSON in, one out. Between commands a worker waits for
its next line, so that the other side has the machine for itself."""
import json, os, resource, subprocess, sys, time

MOST_SAMPLES = 512


def sample(values):
    """At most 512 elements of a flat array, evenly spread; heed's add_sample() takes the same."""
    count = min(len(values), MOST_SAMPLES)
    return [float(values[i * len(values) // count]) for i in range(count)]


def serve(make):
    """A peer's loop. make(command) gives an object with run(), which may return the seconds that
    count, and values()."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is progress
    work = None
    for line in sys.stdin:
        command = json.loads(line)
        try:
            if command["do"] == "prepare":
                work = make(command)
                answer = {"ok": True}
            elif command["do"] == "run":
                if command.get("wake"):
                    work.run()
                answer = {"seconds": [timed(work) for _ in range(command["repeats"])]}
            elif command["do"] == "result":
                answer = {"values": [float(v) for v in work.values()]}
            else:
                answer = {"peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}
        except Exception as error:  # told to run.py, which lists the peer as failed
            answer = {"error": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(answer), file=answers, flush=True)


def timed(work):
    start = time.perf_counter()
    inner = work.run()
    return inner if inner is not None else time.perf_counter() - start


class WorkerError(Exception):
    pass


class Worker:
    """A worker process."""

    def __init__(self, argv, environment, log):
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                                        text=True, env={**os.environ, **environment})

    def ask(self, **command):
        try:
            self.process.stdin.write(json.dumps(command) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        line = self.process.stdout.readline()
        if not line:
            raise WorkerError(f"ended with code {self.process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise WorkerError(answer["error"])
        return answer

    def close(self):
        self.process.stdin.close()
        self.process.wait()
