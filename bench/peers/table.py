"""The table of a run, for people."""


def limits_line(limits):
    return (f"FMA peak {limits['fma'] / 1e9:.0f} GFLOP/s, sgemm {limits['sgemm'] / 1e9:.0f} GFLOP/s, "
            f"read {limits['read'] / 1e9:.1f} GB/s")


def figure(row, side):
    """Speed where an amount is known, else the time; with the spread."""
    seconds = row[side + "_seconds"]
    if row["amount"]:
        rate = row["amount"] / seconds
        text = f"{rate:.0f} {row['unit']}" if rate >= 100 else f"{rate:.3g} {row['unit']}"
    else:
        text = f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"
    return f"{text} ±{100 * row[side + '_spread']:.0f}%"


def verdict(row):
    if row.get("seconds_wanted"):
        return f"< {row['seconds_wanted'] * 1e3:.0f} ms " + ("yes" if row["heed_seconds"] < row["seconds_wanted"] else "no")
    if not row.get("wanted"):
        return ""
    return f"{row['wanted']:g}x " + ("yes" if row["ratio"] >= row["wanted"] else "no")


def agreement(row):
    if row.get("difference") is None:
        return "-"
    text = f"{row['difference']:.0e}"
    if row.get("heed_error") is not None:
        text = f"error {row['heed_error']:.1e} / {row['difference']:.1e}"
    return text + ("" if row.get("agrees") else " DIFFERS")


def cells(row):
    if "absent" in row or "failed" in row:
        why = f"absent: {row['absent']}" if "absent" in row else f"failed: {row['failed']}"
        return [row["title"], "", f"{row['peer']} ({why})", "", "", "", "", "", "", ""]
    share = f"{100 * row['share']:.0f}% {row['share_of']}" if "share" in row else ""
    kept = f"{100 * row['heed_kept']:.0f}% / {100 * row['peer_kept']:.0f}%" if row.get("heed_kept") else ""
    memory = f"{row['heed_peak'] / 1e6:.0f} / {row['peer_peak'] / 1e6:.0f}"
    return [row["title"], figure(row, "heed"), row["peer"], figure(row, "peer"), f"{row['ratio']:.2f}x", verdict(row),
            share, memory, kept, agreement(row)]


HEAD = ["work", "heed", "peer", "its figure", "heed is", "wanted", "share of the limit", "peak MB heed / peer",
        "kept beside a busy loop", "difference"]


def print_table(rows):
    """Markdown, so that it can go into docs/performance.md as it is."""
    limits = [row["limits"] for row in rows if "limits" in row]
    if limits:
        best = {key: max(l[key] for l in limits) for key in limits[0]}
        worst = {key: min(l[key] for l in limits) for key in limits[0]}
        print(f"limits of the machine, best: {limits_line(best)}; worst: {limits_line(worst)}\n")
    table = [HEAD] + [cells(row) for row in rows]
    widths = [max(len(line[i]) for line in table) for i in range(len(HEAD))]
    for number, line in enumerate(table):
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |")
        if number == 0:
            print("|" + "|".join("-" * (width + 2) for width in widths) + "|")
