"""Tensors: memory shared with NumPy and DLPack, ops, gradients. References are NumPy's own lines."""
import gc
import pickle

import numpy as np
import pytest

import heed
from heed.nn import functional as F

rng = np.random.default_rng(0)


def array(*shape):
    return rng.standard_normal(shape).astype(np.float32)


# Memory ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i4", "i8", "u1", "?"])
def test_numpy_shares_memory_both_ways(dtype):
    a = np.arange(6).astype(dtype).reshape(2, 3)
    t = heed.from_numpy(a)
    assert t.data_ptr() == a.ctypes.data
    assert t.numpy().ctypes.data == a.ctypes.data and t.numpy().dtype == a.dtype
    a[1, 2] = 1
    assert t[1, 2].item() == 1
    b = heed.zeros(4).numpy()
    b[2] = 7  # the tensor is gone, its memory is not
    gc.collect()
    assert b.tolist() == [0, 0, 7, 0]


def test_strides_are_kept():
    a = array(4, 6)
    for view in (a.T, a[::2], a[:, 1:4], a[1:, ::3]):
        t = heed.from_numpy(view)
        assert t.data_ptr() == view.ctypes.data and not t.is_contiguous()
        np.testing.assert_array_equal(t.numpy(), view)
        np.testing.assert_array_equal((t + 0).numpy(), view)
    np.testing.assert_array_equal(heed.as_tensor(a[::-1]).numpy(), a[::-1])  # copied: strides < 0


def test_read_only_arrays_are_refused_where_writing_would_show():
    a = array(3)
    a.flags.writeable = False
    with pytest.raises(TypeError):
        heed.from_numpy(a)
    assert heed.tensor(a).data_ptr() != a.ctypes.data


def test_dlpack_both_ways():
    a = array(2, 3)
    t = heed.from_dlpack(a)
    assert t.data_ptr() == a.ctypes.data
    assert np.from_dlpack(t).ctypes.data == a.ctypes.data
    torch = pytest.importorskip("torch")
    theirs = torch.arange(6.0).reshape(2, 3)
    ours = heed.from_dlpack(theirs)
    assert ours.data_ptr() == theirs.data_ptr()
    again = torch.from_dlpack(ours)
    assert again.data_ptr() == theirs.data_ptr() and again.equal(theirs)
    half = torch.from_dlpack(heed.ones(3, dtype=heed.bfloat16))
    assert half.dtype == torch.bfloat16 and half.tolist() == [1, 1, 1]
    assert heed.from_dlpack(torch.ones(2, dtype=torch.bfloat16)).dtype == heed.bfloat16


# Values ---------------------------------------------------------------------------------------------


def test_creation():
    assert heed.zeros(2, 3).shape == heed.zeros((2, 3)).shape == (2, 3)
    assert heed.tensor([[1, 2], [3, 4]]).dtype == heed.int64
    assert heed.tensor([1.5]).dtype == heed.float32
    assert heed.tensor([True]).dtype == heed.bool
    assert heed.arange(3).tolist() == [0, 1, 2]
    assert heed.arange(1, 7, 2).tolist() == [1, 3, 5]
    assert heed.arange(0, 1, 0.5).tolist() == [0, 0.5]
    assert heed.eye(2).tolist() == [[1, 0], [0, 1]]
    assert heed.full([2], 3).tolist() == [3, 3] and heed.full([2], 3).dtype == heed.int64
    assert heed.full([2], 3.0).dtype == heed.full([2], 3, dtype=heed.float32).dtype == heed.float32
    heed.manual_seed(1)
    first = heed.randn(4), heed.randint(0, 5, [10]), heed.rand(3)
    heed.manual_seed(1)
    second = heed.randn(4), heed.randint(0, 5, [10]), heed.rand(3)
    for a, b in zip(first, second):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    assert 0 <= first[1].min().item() and first[1].max().item() < 5


def test_values():
    t = heed.tensor([[1, 2], [3, 4]])
    assert (t.tolist(), len(t), t.numel(), t.ndim) == ([[1, 2], [3, 4]], 2, 4, 2)
    assert [row.tolist() for row in t] == [[1, 2], [3, 4]]
    assert (t.element_size(), heed.zeros(1, dtype=heed.bfloat16).element_size()) == (8, 2)
    assert heed.tensor(2.5).item() == float(heed.tensor(2.5)) == 2.5
    assert isinstance(heed.tensor(3).item(), int) and isinstance(heed.tensor(True).item(), bool)
    assert f"{heed.tensor(1.23456):.2f}" == "1.23"
    assert [10, 20, 30][heed.tensor(1)] == 20
    assert repr(heed.tensor([1.0, 2.0])) == "tensor([1. 2.])"
    assert "requires_grad=True" in repr(heed.zeros(1, requires_grad=True))
    assert np.asarray(t).tolist() == t.tolist()


def test_pickle():
    t = heed.randn(3, 4, requires_grad=True)
    again = pickle.loads(pickle.dumps(t))
    np.testing.assert_array_equal(again.numpy(), t.numpy())
    assert again.requires_grad


@pytest.mark.parametrize(
    "index",
    [1, -1, slice(1, 3), slice(None, None, 2), (0, slice(1, -1)), (Ellipsis, 0), (None, 2), (slice(None), None, 1),
     (slice(None), [2, 0]), [1, 1, 0], (slice(None), -1, slice(2, None)), np.array([[0, 2], [1, 1]])],
    ids=str,
)
def test_subscripts(index):
    a = array(4, 5, 6)
    np.testing.assert_array_equal(heed.tensor(a)[index].numpy(), a[index])


def test_masks_and_assignment():
    a = array(4, 5)
    t = heed.tensor(a)
    np.testing.assert_array_equal(t[t > 0].numpy(), a[a > 0])
    t[1] = 0
    t[:, 0::2] = heed.ones(3)
    t[2, 3] = 5
    a[1] = 0
    a[:, 0::2] = 1
    a[2, 3] = 5
    np.testing.assert_array_equal(t.numpy(), a)
    t[t < 0] = 9
    a[a < 0] = 9
    np.testing.assert_array_equal(t.numpy(), a)
    with pytest.raises(IndexError, match="index 7 is out of range for axis 0 of size 4"):
        t[7, 0]
    with pytest.raises(IndexError, match="too many indices"):
        t[0, 0, 0]


# Ops ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", ["+", "-", "*", "/", "<", "<=", ">", ">=", "==", "!="])
def test_operators(op):
    a, b = array(3, 4), array(4)
    for x, y in ((a, b), (a, np.float32(2)), (np.float32(2), a)):
        expected = eval(f"x {op} y")
        left = heed.tensor(x) if x.ndim else 2.0
        right = heed.tensor(y) if y.ndim else 2.0
        np.testing.assert_allclose(eval(f"left {op} right").numpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(eval(f"heed.tensor(a) {op} b").numpy(), eval(f"a {op} b"), rtol=1e-6)


def test_types_are_promoted_as_pytorch_does():
    whole, real = heed.arange(3), heed.ones(3)
    assert (whole + real).dtype == (whole * 0.5).dtype == (whole / 2).dtype == heed.float32
    assert (whole + 1).dtype == heed.int64
    assert (whole / 2).tolist() == [0, 0.5, 1]
    assert (heed.ones(2, dtype=heed.float64) + heed.ones(2)).dtype == heed.float64


UNARY = {"exp": np.exp, "tanh": np.tanh, "abs": np.abs, "sin": np.sin, "cos": np.cos,
         "relu": lambda x: np.maximum(x, 0), "sigmoid": lambda x: 1 / (1 + np.exp(-x))}


@pytest.mark.parametrize("name", UNARY)
def test_elementwise(name):
    a = array(5, 7)
    expected = UNARY[name](a)
    np.testing.assert_allclose(getattr(heed, name)(heed.tensor(a)).numpy(), expected, rtol=2e-6, atol=1e-6)
    np.testing.assert_allclose(getattr(heed.tensor(a), name)().numpy(), expected, rtol=2e-6, atol=1e-6)


def test_reductions_and_shapes():
    a = array(2, 3, 4)
    t = heed.tensor(a)
    for name in ("sum", "mean"):
        for dim in (None, 0, -1, (0, 2)):
            np.testing.assert_allclose(getattr(t, name)(dim=dim).numpy(), getattr(a, name)(axis=dim), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(t.var(-1, unbiased=False, keepdim=True).numpy(), a.var(-1, keepdims=True), rtol=1e-4)
    np.testing.assert_allclose(t.std(1).numpy(), a.std(1, ddof=1), rtol=1e-4)
    values, indices = t.max(dim=1)
    np.testing.assert_array_equal(values.numpy(), a.max(1))
    np.testing.assert_array_equal(indices.numpy(), a.argmax(1))
    assert t.max().item() == a.max() and t.min().item() == a.min()
    assert t.argmax().item() == a.argmax()
    np.testing.assert_array_equal(t.sort(descending=True).values.numpy(), -np.sort(-a))
    assert t.topk(2).values.shape == (2, 3, 2)
    assert t.view(6, -1).shape == t.reshape((6, 4)).shape == t.flatten(0, 1).shape == (6, 4)
    assert t.permute(2, 0, 1).shape == t.transpose(0, 2).transpose(1, 2).shape == (4, 2, 3)
    assert t.unsqueeze(0).squeeze(0).shape == t.shape and t.T.shape == (2, 4, 3)
    assert heed.ones(1, 3).expand(2, -1).shape == (2, 3) and heed.ones(2).repeat(3, 2).shape == (3, 4)
    assert heed.cat([t, t], dim=1).shape == (2, 6, 4) and heed.stack([t, t]).shape == (2, 2, 3, 4)
    assert [p.shape[2] for p in t.split(3, dim=2)] == [3, 1] and len(t.chunk(2, dim=-1)) == 2
    np.testing.assert_array_equal(heed.tril(t[0] @ t[0].T).numpy(), np.tril((t[0] @ t[0].T).numpy()))
    np.testing.assert_array_equal(heed.triu(heed.ones(3, 5), 1).numpy(), np.triu(np.ones((3, 5)), 1))
    np.testing.assert_array_equal(heed.where(t > 0, t, 0.0).numpy(), np.where(a > 0, a, 0))


def test_products():
    a, b, v = array(2, 3, 4), array(4, 5), array(4)
    np.testing.assert_allclose((heed.tensor(a) @ heed.tensor(b)).numpy(), a @ b, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose((heed.tensor(a) @ b).numpy(), a @ b, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose((heed.tensor(b.T) @ heed.tensor(v)).numpy(), b.T @ v, rtol=1e-5, atol=1e-6)
    assert (heed.tensor(v) @ heed.tensor(v)).item() == pytest.approx(float(v @ v), rel=1e-5)


def test_errors_name_the_op_and_the_shapes():
    with pytest.raises(heed.Error, match=r"\[2, 3\].*\[4, 5\]"):
        heed.zeros(2, 3) + heed.zeros(4, 5)
    with pytest.raises(heed.Error, match="softmax"):
        heed.softmax(heed.zeros(2), 3)
    with pytest.raises(ValueError, match="CPU"):
        heed.zeros(2).to("cuda")
    with pytest.raises(TypeError):
        heed.zeros(2) + "text"


# Gradients ------------------------------------------------------------------------------------------


def test_backward_against_differences():
    w = heed.tensor(array(4, 3), dtype=heed.float64, requires_grad=True)
    x = heed.tensor(array(5, 4), dtype=heed.float64)

    def loss():
        return (F.softmax(x @ w, dim=-1) * heed.arange(3).double()).sum() + (w * w).mean()

    loss().backward()
    for i, j in ((0, 0), (2, 1), (3, 2)):
        values, step = w.detach(), 1e-5
        before = values[i, j].item()
        values[i, j] = before + step
        above = loss().item()
        values[i, j] = before - step
        below = loss().item()
        values[i, j] = before
        assert w.grad[i, j].item() == pytest.approx((above - below) / (2 * step), rel=1e-6)


def test_gradients_add_up_and_stop_where_asked():
    x = heed.ones(3, requires_grad=True)
    (x * 2).sum().backward()
    (x * 3).sum().backward()
    assert x.grad.tolist() == [5, 5, 5]
    x.grad = None
    assert x.grad is None
    with heed.no_grad():
        assert not (x * 2).requires_grad

    @heed.no_grad()
    def quiet():
        return x * 2

    assert not quiet().requires_grad and (x * 2).requires_grad
    assert not x.detach().requires_grad
    with pytest.raises(heed.Error):
        x.detach().sum().backward()


def test_multinomial_draws_with_the_probabilities():
    heed.manual_seed(0)
    p = heed.tensor([0.1, 0.0, 0.9]).expand(4000, 3)
    drawn = heed.multinomial(p, 1).numpy().ravel()
    counts = np.bincount(drawn, minlength=3) / 4000
    assert counts[1] == 0 and abs(counts[0] - 0.1) < 0.02


def test_safetensors(tmp_path):
    heed.save({"a": heed.arange(3), "b": heed.ones(2, 2, dtype=heed.bfloat16)}, tmp_path / "x.safetensors")
    again = heed.load_tensors(tmp_path / "x.safetensors")
    assert again["a"].tolist() == [0, 1, 2] and again["b"].dtype == heed.bfloat16


# Attention ------------------------------------------------------------------------------------------


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("shape", [(5, 8), (2, 5, 8), (2, 3, 5, 8)])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_is_the_formula(shape, causal):
    q, k, v = array(*shape), array(*shape), array(*shape)
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(shape[-1])
    if causal:
        scores = np.where(np.tril(np.ones((5, 5), bool)), scores, -np.inf)
    expected = softmax(scores)
    output, weights = heed.attention(q, k, v, causal=causal)
    assert isinstance(output, np.ndarray)
    np.testing.assert_allclose(weights, expected, atol=1e-6)
    np.testing.assert_allclose(output, expected @ v, atol=1e-5)


def test_attention_masks_and_gradients():
    q = array(4, 8)
    mask = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [1, 1, 1, 1]])
    for form in (mask, mask.astype(bool), np.where(mask == 1, 0, -np.inf).astype(np.float32)):
        _, weights = heed.attention(q, q, q, form)
        assert (weights[mask == 0] == 0).all()
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-6)
    t = heed.tensor(q, requires_grad=True)
    output, weights = heed.attention(t, t, t, heed.tensor(mask))
    output.sum().backward()
    assert t.grad.shape == (4, 8) and not weights.requires_grad
    with pytest.raises(heed.Error, match=r"2, 3\].*2, 4\]"):
        heed.attention(np.ones((2, 3)), np.ones((2, 4)), np.ones((2, 4)))


def test_attention_holds_one_matrix_of_weights():
    q = heed.randn(1, 4, 1024, 16)
    heed.reset_peak_memory()
    before = heed.memory_in_use()
    output, weights = heed.attention(q, q, q, causal=True)
    assert heed.peak_memory() - before < 1.2 * weights.numel() * weights.element_size()
    with heed.record() as recorded:  # what a recorder sees is what was returned
        again, same = heed.attention(q, q, q, causal=True)
    assert (again == output).all() and (same == weights).all()
    assert (recorded.attentions[0].weights(0) == weights[0]).all()
