"""stubs.py FILE: what nanobind's generated stub lacks for mypy --strict.

Tensor has methods named float, int and bool, as PyTorch's has; annotations inside it mean the types.
Generic types get their arguments.
"""

import re
import sys

path = sys.argv[1]
lines = open(path, encoding="utf-8").read().split("\n")
inside = False
for i, line in enumerate(lines):
    if re.match(r"\S", line):
        inside = line.startswith("class Tensor")
    if inside and line.lstrip().startswith("def "):
        line = re.sub(r"(?<!def )(?<!builtins\.)\b(float|int|bool)\b(?!\()", r"builtins.\1", line)
    line = line.replace("numpy.typing.NDArray", "NDArray")
    line = re.sub(r"\bNDArray(?=[,\]])", "NDArray[Any]", line)
    line = re.sub(r"\bos\.PathLike\b(?!\[)", "os.PathLike[str]", line)
    line = re.sub(r"(?<=[ \[])tuple(?=[,:\]|)]|$)", "tuple[Any, ...]", line)
    line = re.sub(r"(?<=[ \[])dict(?=[,:\]|)]|$)", "dict[str, Any]", line)
    if inside and re.match(r"    def __(lt|le|gt|ge)__\(self, other: Annotated", line):
        line += "  # type: ignore[misc]"
    following = lines[i + 1] if i + 1 < len(lines) else ""
    if line == "    @overload" and re.match(r"    def __(eq|ne)__\(self, other: Tensor", following):
        line += "  # type: ignore[override]"  # compared element by element
    if inside:
        line = re.sub(r": dtype\b", ": _DType", line)
    lines[i] = line
text = "\n".join(lines)
if "import builtins" not in text:
    text = f"import builtins\n{text}\n_DType = dtype\n__version__: str\n"
open(path, "w", encoding="utf-8").write(text)
