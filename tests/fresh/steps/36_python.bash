# ./dev python, and its wheel in an environment of a user: attention, a model's predictions and what it looked at.
installed_model
seconds_of inside "$root" root /heed ./dev python
echo "note: ./dev python took $seconds s"
inside "$root" minsu /home/minsu bash -euo pipefail -c 'python3 -m venv env && env/bin/pip install -q /heed/dist/heed-*.whl'
inside --offline "$root" minsu /home/minsu env/bin/python -c '
import heed, numpy
q = numpy.random.default_rng(1).standard_normal((1, 2, 5, 8), dtype=numpy.float32)
output, weights = heed.attention(q, q, q)
assert output.shape == (1, 2, 5, 8) and numpy.allclose(numpy.asarray(weights).sum(-1), 1, atol=1e-5)
text = heed.pipeline("text-generation", "run")("heed is")[0]["generated_text"]
assert text.startswith("heed is") and len(text) > len("heed is"), text
model = heed.load("run")
with heed.record() as recorded:
    model([model.tokenizer.encode("heed is")])
assert numpy.allclose(numpy.asarray(recorded.attention(layer=0, head=1)).sum(-1), 1, atol=1e-5)
print(heed.__version__, text)'
