"""Runs the contestants of one work in turn and gathers what they took, used and computed."""
import json, multiprocessing, os, shutil, statistics, subprocess, sys, time
from protocol import Worker, WorkerError

LONG = 0.5  # seconds: a run as long as this needs no run before it to wake the threads
PAUSE = 0.05  # in which the others' spinning threads go to sleep
STEPS_BEFORE = 3  # of a training: the first make the optimizer's state, and memory beside it


def say(text):
    print(f"peers: {text}", file=sys.stderr, flush=True)


def spread(times):
    """Half the distance between the quartiles, as a fraction of the median."""
    if len(times) < 3:
        return (max(times) - min(times)) / 2 / statistics.median(times)
    low, middle, high = statistics.quantiles(times, n=4, method="inclusive")
    return (high - low) / 2 / middle


class Side:
    """heed or a peer in one work."""

    def __init__(self, name):
        self.name, self.times, self.busy_times = name, [], []
        self.peak, self.values, self.failure = 0, [], ""

    @property
    def seconds(self):
        return statistics.median(self.times)

    @property
    def kept(self):
        return self.seconds / statistics.median(self.busy_times) if self.busy_times else None


class WorkerSide(Side):
    def __init__(self, name, argv, environment, command, log):
        super().__init__(name)
        self.argv, self.environment, self.command, self.log = argv, environment, command, log
        self.worker, self.repeats, self.wake = None, 1, True

    def start(self):
        self.worker = Worker(self.argv, self.environment, self.log)
        self.worker.ask(do="prepare", **self.command)
        first = self.worker.ask(do="run", repeats=1)["seconds"][0]
        if self.command["kind"] == "train":
            first = self.worker.ask(do="run", repeats=STEPS_BEFORE - 1)["seconds"][-1]
        elif first < LONG:
            first = self.worker.ask(do="run", repeats=1)["seconds"][0]
        self.repeats = max(1, min(20, int(0.2 / max(first, 1e-6))))
        self.wake = first < LONG
        return first

    def turn(self, times):
        times.append(statistics.median(self.worker.ask(do="run", repeats=self.repeats, wake=self.wake)["seconds"]))

    def finish(self):
        self.values = self.worker.ask(do="result")["values"]
        self.peak = self.worker.ask(do="memory")["peak"]

    def close(self):
        if self.worker:
            self.worker.close()


class ProcessSide(Side):
    """A whole process, started for every turn. What it prints as JSON may name the seconds that count."""

    def __init__(self, name, argv, environment, log):
        super().__init__(name)
        self.argv, self.environment, self.log = argv, environment, log

    def start(self):
        times = []
        self.turn(times)
        return times[0]

    def turn(self, times):
        if "--out" in self.argv:
            shutil.rmtree(self.argv[self.argv.index("--out") + 1], ignore_errors=True)
        start = time.perf_counter()
        process = subprocess.Popen(self.argv, stdout=subprocess.PIPE, stderr=self.log,
                                   env={**os.environ, **self.environment})
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise WorkerError(f"ended with code {process.returncode}")
        try:
            told = json.loads(output)
        except ValueError:
            told = {}
        self.values = told.get("ids", [told["loss"]] if "loss" in told else [])
        self.peak = max(self.peak, usage.ru_maxrss * 1024)
        times.append(told.get("seconds", seconds))

    def finish(self):
        if "--out" in self.argv:
            # Near a loss of 0 rounding decides where Adam goes, so the first steps are compared.
            with open(os.path.join(self.argv[self.argv.index("--out") + 1], "metrics.jsonl")) as lines:
                losses = [json.loads(line)["loss"] for line in lines][:50]
            self.values = [sum(losses) / len(losses)]

    def close(self):
        pass


def spin():
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    while True:
        pass


def in_turn(sides, rounds, busy=False):
    for _ in range(rounds):
        for side in sides:
            if side.failure:
                continue
            time.sleep(PAUSE)
            attempt(side, lambda: side.turn(side.busy_times if busy else side.times))


def attempt(side, step):
    try:
        step()
    except (WorkerError, OSError, ValueError) as error:
        side.failure = str(error)
        say(f"{side.name} failed: {side.failure}")


def contest(sides, rounds, with_busy_loop):
    """Starts all, runs them A B C A B C …, and once more beside a busy loop where asked."""
    slowest = 0.0
    try:
        for side in sides:
            def begin(side=side):
                nonlocal slowest
                slowest = max(slowest, side.start())
            attempt(side, begin)
        count = rounds or (1 if slowest > 20 else 3 if slowest > 1.5 else 5)
        in_turn(sides, count)
        if with_busy_loop:
            busy = multiprocessing.Process(target=spin, daemon=True)
            busy.start()
            time.sleep(0.2)
            in_turn(sides, max(3, count - 2), busy=True)
            busy.kill()
            busy.join()
        for side in sides:
            if not side.failure:
                attempt(side, side.finish)
    finally:
        for side in sides:
            side.close()


def difference(ours, theirs, index_by_index):
    """The largest difference as a fraction of the largest value; losses are compared as far as both go."""
    if not ours or not theirs:
        return None
    if index_by_index:
        count = min(len(ours), len(theirs))
        ours, theirs = ours[:count], theirs[:count]
    if len(ours) != len(theirs):
        return float("inf")
    largest = max(map(abs, theirs)) or 1.0
    return max(abs(a - b) for a, b in zip(ours, theirs)) / largest
