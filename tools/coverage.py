#!/usr/bin/env python3
"""Reports which lines and branches of heed the tests run; ./dev coverage calls it.

  tools/coverage.py EXPORT.json [FOLDER]    EXPORT.json: `llvm-cov export -skip-functions` of the program

Prints lines per module, then lines and branches of the readers (tests/coverage/readers.txt), and writes what no test reaches
to FOLDER/lines.txt and FOLDER/branches.txt. A branch is one outcome, true or false, of one condition of the source, or one
case of a switch. Fails where
  - fewer than 90 % of all lines run,
  - a branch of a reader is neither reached nor named in tests/coverage/unreached.txt,
  - a branch that is named there is reached, or is there no more.
"""
import collections
import fnmatch
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LEAST_LINES = 90.0


def line_counts(segments, text):
    """Line number -> how often it ran, by llvm-cov's rule: the largest count of what begins on the line or goes on over it.
    Empty lines, comments and lone brackets do not count."""
    begun = collections.defaultdict(list)
    for segment in segments:
        begun[segment[0]].append(segment)
    counts = {}
    before = None
    for number in range(segments[0][0] if segments else 1, len(text) + 1):
        entries = [segment for segment in begun[number] if segment[4]]
        starts = [count for _, _, count, has_count, _, gap in entries if has_count and not gap]
        skipped = bool(begun[number]) and entries[:1] == begun[number][:1] and not begun[number][0][3]
        if starts or (before and before[3] and not skipped):
            content = text[number - 1].strip()
            if content.strip("{}();,") and not content.startswith("//"):
                counts[number] = max(starts + ([before[2]] if before and before[3] else []))
        if begun[number]:
            before = begun[number][-1]
    return counts


def count_at(segments, line, column):
    """How often the code at a place ran."""
    found = 0
    for segment in segments:
        if (segment[0], segment[1]) > (line, column):
            break
        found = segment[2]
    return found


class File:
    """One source file: its lines, and its branches as (line, column, outcome) -> how often taken."""

    def __init__(self, name, entry):
        self.name = name
        self.text = (ROOT / name).read_text(encoding="utf-8").split("\n")
        self.lines = line_counts(entry["segments"], self.text)
        self.branches = collections.Counter()
        for line, column, _, _, taken, not_taken, *_ in entry["branches"]:
            folded = taken == 0 and not_taken == 0 and count_at(entry["segments"], line, column) > 0
            if folded:  # if constexpr and the like: no branch of the program
                continue
            text = self.text[line - 1]
            if text[: column - 1].rstrip().endswith("switch ("):  # that no case fits: none of the source's branches
                continue
            self.branches[line, column, "true"] += taken
            if not text[column - 1 :].startswith(("case ", "default")):
                self.branches[line, column, "false"] += not_taken

    def unreached(self):
        """(line, column, outcome, text) of the branches that nothing takes."""
        for (line, column, outcome), count in sorted(self.branches.items()):
            if count == 0:
                yield line, column, outcome, self.text[line - 1].strip()


def read_files(export):
    files = {}
    with open(export, encoding="utf-8") as stream:
        for entry in json.load(stream)["data"][0]["files"]:
            path = pathlib.Path(entry["filename"]).resolve()
            if path.is_relative_to(ROOT):
                name = str(path.relative_to(ROOT))
                if name.startswith(("src/", "apps/", "include/")):
                    files[name] = File(name, entry)
    return files


def table_lines(name):
    for line in (ROOT / "tests/coverage" / name).read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            yield line


def percent(part, whole):
    return 100.0 * part / whole if whole else 100.0


def covered_lines(files):
    run = sum(1 for file in files for count in file.lines.values() if count > 0)
    return run, sum(len(file.lines) for file in files)


def covered_branches(files):
    taken = sum(1 for file in files for count in file.branches.values() if count > 0)
    return taken, sum(len(file.branches) for file in files)


def print_modules(files):
    modules = collections.defaultdict(list)
    for name, file in files.items():
        parts = name.split("/")
        modules["apps/heed" if parts[0] == "apps" else "/".join(parts[:2])].append(file)
    print(f"{'module':<18} {'lines':>7} {'run':>7} {'%':>6}")
    for module in sorted(modules):
        run, lines = covered_lines(modules[module])
        print(f"{module:<18} {lines:>7} {run:>7} {percent(run, lines):>6.1f}")
    run, lines = covered_lines(files.values())
    print(f"{'all':<18} {lines:>7} {run:>7} {percent(run, lines):>6.1f}")
    return percent(run, lines)


def print_readers(readers, named):
    print(f"\n{'reader':<38} {'lines':>6} {'%':>6} {'branches':>9} {'reached':>8} {'named':>6} {'neither':>8}")
    for file in list(readers) + [None]:
        group = [file] if file else readers
        run, lines = covered_lines(group)
        taken, branches = covered_branches(group)
        known = sum(named[member.name] for member in group)
        name = file.name if file else "all"
        print(f"{name:<38} {lines:>6} {percent(run, lines):>6.1f} {branches:>9} {taken:>8} {known:>6} "
              f"{branches - taken - known:>8}")


def write_unreached(folder, files, readers):
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lines.txt", "w", encoding="utf-8") as out:
        for name, file in sorted(files.items()):
            for number, count in sorted(file.lines.items()):
                if count == 0:
                    out.write(f"{name}:{number}: {file.text[number - 1].strip()}\n")
    with open(folder / "branches.txt", "w", encoding="utf-8") as out:
        for file in readers:
            for line, column, outcome, text in file.unreached():
                out.write(f"{file.name}:{line}:{column}: never {outcome}: {text}\n")


def check_names(readers):
    """Compares the branches that nothing takes with the named ones; returns counts per file and problems."""
    names = {}
    for line in table_lines("unreached.txt"):
        file, outcome, text, reason = (line.split(" | ") + ["", "", ""])[:4]
        names[file, outcome, text] = reason
    problems = [f"tests/coverage/unreached.txt: no reason for {file}: {text}"
                for (file, _, text), reason in names.items() if not reason]
    used = set()
    counts = collections.Counter()
    for file in readers:
        for line, column, outcome, text in file.unreached():
            if (file.name, outcome, text) in names:
                used.add((file.name, outcome, text))
                counts[file.name] += 1
            else:
                problems.append(f"{file.name}:{line}:{column}: never {outcome}, and not named: {text}")
    problems += [f"tests/coverage/unreached.txt: reached, or there no more: {file} | {outcome} | {text}"
                 for file, outcome, text in names if (file, outcome, text) not in used]
    return counts, problems


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    files = read_files(sys.argv[1])
    globs = list(table_lines("readers.txt"))
    problems = [f"tests/coverage/readers.txt: {glob} is no file" for glob in globs
                if not fnmatch.filter(files, glob)]
    readers = [file for name, file in sorted(files.items()) if any(fnmatch.fnmatch(name, glob) for glob in globs)]
    named, more = check_names(readers)
    problems += more
    lines = print_modules(files)
    print_readers(readers, named)
    if len(sys.argv) > 2:
        write_unreached(pathlib.Path(sys.argv[2]), files, readers)
    if lines < LEAST_LINES:
        problems.append(f"{lines:.1f} % of the lines run; {LEAST_LINES} % are wanted")
    for problem in problems:
        print(problem, file=sys.stderr)
    sys.exit(1 if problems else 0)


main()
