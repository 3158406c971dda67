#!/usr/bin/env python3
"""heed beside its peers in one run: run.py --heed HEED --worker WORKER --folder FOLDER [--shared DATA]
[--json FILE] [--prepare] [NAME…]. A NAME is a work or the beginning of some ("train", "decode-q8_0")."""
import argparse, importlib.metadata, importlib.util, json, os, platform, signal, subprocess, sys, time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from contest import ProcessSide, WorkerSide, contest, difference, say, spread
from table import limits_line, print_table
from works import KEEP_PAGES, all_works

PACKAGES = {"torch": "torch", "transformers": "transformers", "onnxruntime": "onnxruntime", "onnx": "onnx",
            "ctranslate2": "ctranslate2", "tokenizers": "tokenizers", "tiktoken": "tiktoken",
            "llama_cpp": "llama-cpp-python", "openvino": "openvino", "nncf": "nncf",
            "faster_whisper": "faster-whisper", "sentence_transformers": "sentence-transformers"}


def arguments():
    parser = argparse.ArgumentParser(prog="./dev bench peers")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--heed", required=True)
    parser.add_argument("--worker", required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--shared", default="")
    parser.add_argument("--json", default="")
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--without", action="append", default=[], help="leave out peers whose name contains this")
    parser.add_argument("--list", action="store_true", help="name the works and end")
    parser.add_argument("--prepare", action="store_true", help="make models and compile; measure nothing")
    return parser.parse_args()


def choose(works, names):
    chosen = [w for w in works if not names or any(w.name == n or w.name.startswith(n + "-") for n in names)]
    for name in names:
        if not any(w.name == name or w.name.startswith(name + "-") for w in works):
            sys.exit(f"peers: there is no work '{name}'; there are: {', '.join(w.name for w in works)}")
    return chosen


def side_of(option, peer, work, threads, log):
    """A peer's side, or heed's where peer is None."""
    if work.kind == "process":
        command = work.command if peer is None else [sys.executable if c == "{python}" else c for c in peer.command]
        return ProcessSide("heed" if peer is None else peer.name, command, {} if peer is None else peer.environment,
                           log)
    command = {"kind": work.kind, "threads": threads, **work.options}
    if peer is None:
        return WorkerSide("heed", [option.worker], {}, command, log)
    if not peer.script:  # heed itself with other options
        return WorkerSide(peer.name, [option.worker], {}, {**command, **peer.options}, log)
    environment = {"OMP_NUM_THREADS": str(threads), "TORCHINDUCTOR_CACHE_DIR": os.path.join(option.folder, "inductor"),
                   "PYTHONWARNINGS": "ignore", "TRANSFORMERS_VERBOSITY": "error", "HF_HUB_OFFLINE": "1",
                   **peer.environment}
    return WorkerSide(peer.name, [sys.executable, os.path.join(HERE, peer.script)], environment,
                      {**command, **peer.options}, log)


def measure_limits(option, threads, has_torch, log):
    """The machine's limits now: heed's own loops, and the better sgemm of heed's and PyTorch's."""
    sides = [WorkerSide("limits", [option.worker], {}, {"kind": "limits", "threads": threads}, log)]
    if has_torch:
        sides.append(WorkerSide("PyTorch's sgemm", [sys.executable, os.path.join(HERE, "peer_torch.py")], KEEP_PAGES,
                                {"kind": "limits"}, log))
    contest(sides, 2, False)
    fma, sgemm, read = sides[0].values
    if has_torch and sides[1].values:
        sgemm = max(sgemm, sides[1].values[0])
    return {"fma": fma, "sgemm": sgemm, "read": read}


def missing_files(work):
    made = [] if work.assets else ["text"]
    return [v for k, v in work.options.items() if k in ("tokenizer", "source", *made) and not os.path.exists(v)]


def rows_of(work, ours, theirs, reference, limits):
    """One row a peer: what the table and --json show."""
    base = {"work": work.name, "title": work.title}
    if ours.failure:
        return [{**base, "peer": "", "failed": "heed: " + ours.failure}]
    base.update(heed_seconds=ours.seconds, heed_spread=spread(ours.times), heed_peak=ours.peak, unit=work.unit,
                amount=work.amount, heed_kept=ours.kept)
    if work.flops:
        base["heed_flops"] = work.flops / ours.seconds
        base["share"] = work.flops / ours.seconds / (limits["fma"] if work.kind == "attention" else limits["sgemm"])
        base["share_of"] = "FMA peak" if work.kind == "attention" else "sgemm"
    if work.traffic:
        steps = work.amount / work.together
        base["share"] = os.path.getsize(work.traffic) * steps / ours.seconds / limits["read"]
        base["share_of"] = "read"
    if "limit" in work.options:
        base["seconds_wanted"] = work.options["limit"]
    rows = []
    for peer, side in theirs:
        row = {**base, "peer": peer.name, "wanted": peer.wanted}
        if side.failure:
            rows.append({**row, "failed": side.failure})
            continue
        row.update(peer_seconds=side.seconds, peer_spread=spread(side.times), peer_peak=side.peak,
                   ratio=side.seconds / ours.seconds, peer_kept=side.kept)
        if reference is not None:
            row["heed_error"] = difference(ours.values, reference.values, False)
            row["difference"] = difference(side.values, reference.values, False)
            row["agrees"] = row["difference"] is not None and row["difference"] <= peer.bound
        elif side.values or work.kind != "process":
            row["difference"] = difference(side.values, ours.values, work.kind == "train")
            row["agrees"] = row["difference"] is not None and row["difference"] <= peer.bound
        rows.append(row)
    return rows


def run_work(option, work, present, threads, known_limits, log):
    """Rows of one work. The limits are measured before the first work of a kind."""
    reasons = {p.package: f"{PACKAGES[p.package]} is not there" for p in work.peers
               if p.package and not present[p.package]}
    peers = [p for p in work.peers if p.package not in reasons and not any(w in p.name for w in option.without)]
    absent = [{"work": work.name, "title": work.title, "peer": p.name, "absent": reasons[p.package]}
              for p in work.peers if p.package in reasons]
    files = missing_files(work)
    if files:
        return [{"work": work.name, "title": work.title, "peer": p.name, "absent": f"{files[0]} is not there"}
                for p in work.peers]
    if work.assets:
        if not present["torch"] or not present["transformers"]:
            return [{"work": work.name, "title": work.title, "peer": p.name,
                     "absent": "its model is made with torch and transformers, which are not there"}
                    for p in work.peers]
        os.makedirs(option.folder, exist_ok=True)
        subprocess.run([sys.executable, os.path.join(HERE, "assets.py"), option.folder, option.heed, *work.assets],
                       check=True, stdout=sys.stderr, env={**os.environ, "HEED_SHARED": os.path.abspath(option.shared)})
    ours = side_of(option, None, work, threads, log)
    theirs = [(peer, side_of(option, peer, work, threads, log)) for peer in peers]
    if option.prepare:
        contest([ours, *(side for _, side in theirs)], 1, False)
        return []
    reference = None
    if work.reference and present[work.reference.package]:
        reference = side_of(option, work.reference, work, threads, log)
        contest([reference], 1, False)
    if work.kind not in known_limits:
        known_limits[work.kind] = measure_limits(option, threads, present["torch"], log)
        say(f"limits now: {limits_line(known_limits[work.kind])}")
    limits = known_limits[work.kind]
    sides = [ours, *(side for _, side in theirs)]
    if work.traffic:
        reading = WorkerSide("reading", [option.worker], {}, {"kind": "read", "threads": threads}, log)
        contest([*sides, reading], option.rounds, work.busy)
        if not reading.failure:
            limits = {**limits, "read": reading.values[0] / reading.seconds}
    else:
        contest(sides, option.rounds, work.busy)
    return [{**row, "limits": limits} for row in rows_of(work, ours, theirs, reference, limits)] + absent


def main():
    option = arguments()
    option.folder = os.path.abspath(option.folder)
    os.makedirs(option.folder, exist_ok=True)
    threads = len(os.sched_getaffinity(0))
    works = all_works(option.folder, os.path.abspath(option.heed), HERE, os.path.abspath(option.shared), threads)
    if option.list:
        print("\n".join(f"{w.name:26} {w.title}" for w in works))
        return
    chosen = choose(works, option.names)
    present = {module: importlib.util.find_spec(module) is not None for module in PACKAGES}
    versions = {name: importlib.metadata.version(name) if present[module] else "absent"
                for module, name in PACKAGES.items()}
    rows = []
    limits = {}
    start = time.time()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with open(os.path.join(option.folder, "log"), "w") as log:
            for number, work in enumerate(chosen, 1):
                say(f"{work.name} ({number} of {len(chosen)}, {time.time() - start:.0f} s)")
                rows += run_work(option, work, present, threads, limits, log)
    except KeyboardInterrupt:
        say("stopped; what was measured until now follows")
    if option.prepare:
        return
    print(f"{platform.machine()}, {threads} threads, {time.strftime('%Y-%m-%d %H:%M')} UTC, "
          f"{time.time() - start:.0f} s; " + ", ".join(f"{n} {v}" for n, v in versions.items()))
    print_table(rows)
    if option.json:
        with open(option.json, "w") as file:
            json.dump({"versions": versions, "threads": threads, "rows": rows}, file, indent=1)


main()
