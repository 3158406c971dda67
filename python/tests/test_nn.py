"""Layers, optimizers, data; PyTorch's own results where it is installed."""
import copy
import math
import pickle

import numpy as np
import pytest

import heed
from heed import data, nn, optim
from heed.nn import functional as F


class Gpt(nn.Module):
    def __init__(self, vocab=11, d_model=16, layers=2):
        super().__init__()
        self.tokens = nn.Embedding(vocab, d_model)
        self.blocks = nn.ModuleList([nn.TransformerBlock(d_model, 2, causal=True) for _ in range(layers)])
        self.head = nn.Linear(d_model, vocab, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids):
        x = self.tokens(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def test_parameters_are_found_once():
    model = Gpt()
    names = [name for name, _ in model.named_parameters()]
    assert names[0] == "tokens.weight" and "blocks.1.self_attn.in_proj_weight" in names
    assert "head.weight" not in names  # tied
    assert set(model.state_dict()) == {*names, "head.weight"}
    assert all(isinstance(p, nn.Parameter) and p.requires_grad for p in model.parameters())


def test_training_lowers_the_loss_and_seeds_repeat_it():
    ids = heed.tensor([[1, 2, 3, 4, 5, 6, 7, 8]])

    def run():
        heed.manual_seed(3)
        model = Gpt()
        optimizer = optim.AdamW(model.parameters(), lr=1e-2)
        losses = []
        for _ in range(30):
            loss = F.cross_entropy(model(ids[:, :-1]).view(-1, 11), ids[:, 1:].reshape(-1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    losses = run()
    assert losses[-1] < losses[0] / 10
    assert run() == losses  # bit for bit


def test_modes_state_and_copies(tmp_path):
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Dropout(0.5), nn.TransformerEncoderLayer(4, 2, 8, batch_first=True))
    x = heed.ones(1, 3, 4)
    assert model.eval() is model and not model[3].training
    np.testing.assert_array_equal(model(x).numpy(), model(x).numpy())
    assert model.train().training
    model.save(tmp_path / "m.safetensors")
    other = copy.deepcopy(model)
    state = heed.load_tensors(tmp_path / "m.safetensors")
    other.load_state_dict(state)
    np.testing.assert_array_equal(other.eval()(x).numpy(), model.eval()(x).numpy())
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.eval()(x).numpy(), model(x).numpy())
    state.pop("0.bias")
    with pytest.raises(heed.Error, match="missing: 0.bias"):
        other.load_state_dict(state)
    with pytest.raises(AttributeError, match="cannot be replaced"):
        model[3].linear1.weight = nn.Parameter(heed.zeros(8, 4))
    assert "Linear(4, 4, bias=True)" in repr(model)
    with pytest.raises(AttributeError, match="no 'nothing'"):
        model.nothing
    assert [name for name, _ in model.named_parameters()][0] == "0.weight"


def test_buffers_and_new_parameters():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(heed.ones(3))
            self.register_buffer("mask", heed.tril(heed.ones(3, 3)))

        def forward(self, x):
            return (x * self.scale).masked_fill(self.mask == 0, -heed.inf)

    module = Scaled()
    assert list(module.state_dict()) == ["scale", "mask"] and len(list(module.parameters())) == 1
    assert module(heed.ones(3, 3))[0].tolist() == [1, -math.inf, -math.inf]


def test_hooks_of_a_model_written_in_python():
    model = Gpt().eval()
    with heed.record() as r:
        model(heed.tensor([[1, 2, 3, 4]]))
    assert [each.layer for each in r.attentions] == [0, 1]
    weights = r.attention(layer=1, head=1)
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-6)
    assert np.triu(weights, 1).max() == 0
    assert "blocks.1.attn.hook_q" in r.activations
    with heed.record(ablate=[(0, 0), (0, 1)]):
        silenced = model(heed.tensor([[1, 2, 3, 4]]))
    assert not heed.allclose(silenced, model(heed.tensor([[1, 2, 3, 4]])))


def test_precision():
    block = nn.TransformerBlock(32, 2)
    x = heed.randn(2, 8, 32)
    exact = block(x)
    with heed.autocast(heed.bfloat16):
        rounded = block(x)
    assert rounded.shape == exact.shape


def test_schedules():
    optimizer = optim.SGD([heed.zeros(1, requires_grad=True)], lr=2.0)
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)
    rates = []
    for _ in range(10):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    assert rates[0] == 2.0 and rates[5] == pytest.approx(1.0) and schedule.get_last_lr() == [pytest.approx(0)]
    warm = optim.lr_scheduler.WarmupLR(optim.SGD([heed.zeros(1, requires_grad=True)], lr=1.0), warmup=4, total=20)
    assert warm.get_last_lr() == [0.25]


def test_groups_and_optimizer_state():
    a, b = heed.ones(2, requires_grad=True), heed.ones(2, requires_grad=True)
    optimizer = optim.AdamW([{"params": [a]}, {"params": [b], "lr": 0.0}], lr=0.1)
    (a.sum() + b.sum()).backward()
    optimizer.step()
    assert a[0].item() < 1 and b.tolist() == [1, 1]
    state = {name: tensor.clone() for name, tensor in optimizer.state_dict().items()}
    assert {"0.exp_avg.0", "1.exp_avg_sq.1"} <= set(state)
    optimizer.load_state_dict(state)
    with pytest.raises(ValueError, match="needs parameters"):
        optim.SGD([])


def test_data():
    rows = data.TensorDataset(heed.arange(10), heed.randn(10, 3))
    batches = list(data.DataLoader(rows, batch_size=4, shuffle=True))
    assert [len(x) for x, _ in batches] == [4, 4, 2]
    assert sorted(sum((x.tolist() for x, _ in batches), [])) == list(range(10))
    left, right = data.random_split(rows, [7, 3])
    assert len(left) == 7 and len(right) == 3 and right[0][1].shape == (3,)
    loader = data.lm_loader(range(100), context=8, batch_size=2, seed=1)
    assert loader.batch(3)["input_ids"].tolist() == loader.batch(3)["input_ids"].tolist()
    assert next(iter(loader))["labels"].shape == (2, 8)
    assert set(data.synthetic_sets()) >= {"coreference", "dates", "plus-two"}
    assert data.synthetic("plus-two", 1)[0]["target"] == [x + 2 for x in data.synthetic("plus-two", 1)[0]["input"]]
    image, caption = data.shapes(1)[0]
    assert image.shape == (32, 32, 3) and caption.startswith("a ")


# PyTorch ----------------------------------------------------------------------------------------------


def same(ours, theirs, tolerance=2e-5):
    np.testing.assert_allclose(np.asarray(ours), theirs.detach().numpy(), rtol=tolerance, atol=tolerance)


def pairs():
    torch = pytest.importorskip("torch")
    t = torch.nn
    return torch, [
        (nn.Linear(8, 4), t.Linear(8, 4), (2, 3, 8)),
        (nn.LayerNorm(8), t.LayerNorm(8), (2, 3, 8)),
        (nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True),
         t.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True), (2, 5, 8)),
        (nn.TransformerEncoderLayer(8, 2, 16, 0.0, "gelu", norm_first=True),
         t.TransformerEncoderLayer(8, 2, 16, 0.0, "gelu", norm_first=True), (5, 2, 8)),
        (nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True), 2),
         t.TransformerEncoder(t.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True), 2), (2, 5, 8)),
    ]


@pytest.mark.parametrize("case", range(5))
def test_layers_are_pytorchs(case):
    torch, all_pairs = pairs()
    ours, theirs, shape = all_pairs[case]
    ours.load_state_dict(theirs.state_dict())  # the names are PyTorch's
    x = torch.randn(shape, requires_grad=True)
    mine = heed.tensor(x.detach().numpy(), requires_grad=True)
    y, z = ours(mine), theirs(x)
    same(y.detach(), z)
    (y * y).sum().backward()
    (z * z).sum().backward()
    same(mine.grad, x.grad, 1e-4)
    gradients = dict(ours.named_parameters())
    for name, parameter in theirs.named_parameters():
        same(gradients[name].grad, parameter.grad, 2e-4)


def test_attention_layers_and_masks_are_pytorchs():
    torch = pytest.importorskip("torch")
    theirs = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    ours = nn.MultiheadAttention(8, 2, batch_first=True)
    ours.load_state_dict(theirs.state_dict())
    q, kv = torch.randn(2, 3, 8), torch.randn(2, 5, 8)
    padding = torch.tensor([[False, False, False, True, True], [False] * 5])
    hidden = torch.triu(torch.ones(3, 5, dtype=torch.bool), 2)
    mine = [heed.from_dlpack(x) for x in (q, kv, kv)]
    for options in ({}, {"key_padding_mask": padding}, {"attn_mask": hidden},
                    {"attn_mask": torch.zeros(3, 5).masked_fill(hidden, -math.inf)}):
        y, weights = ours(*mine, **{name: heed.tensor(mask.numpy()) for name, mask in options.items()})
        z, expected = theirs(q, kv, kv, **options)
        same(y.detach(), z)
        same(weights, expected)
    fast = nn.MultiHeadAttention(8, 2)
    fast.load_state_dict(theirs.state_dict())
    same(fast(*mine).detach(), theirs(q, kv, kv)[0])


def test_the_whole_transformer_is_pytorchs():
    torch = pytest.importorskip("torch")
    sizes = dict(d_model=8, nhead=2, num_encoder_layers=2, num_decoder_layers=2, dim_feedforward=16, dropout=0.0,
                 batch_first=True)
    theirs, ours = torch.nn.Transformer(**sizes), nn.Transformer(**sizes)
    ours.load_state_dict(theirs.state_dict())
    src, tgt = torch.randn(2, 5, 8), torch.randn(2, 4, 8)
    mask = torch.nn.Transformer.generate_square_subsequent_mask(4)
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    z = theirs(src, tgt, tgt_mask=mask, src_key_padding_mask=padding, memory_key_padding_mask=padding)
    pad = heed.tensor(padding.numpy())
    y = ours(heed.from_dlpack(src), heed.from_dlpack(tgt), src_key_padding_mask=pad, memory_key_padding_mask=pad,
             tgt_mask=nn.Transformer.generate_square_subsequent_mask(4))
    same(y.detach(), z, 5e-5)


@pytest.mark.parametrize("name,options", [("SGD", {"momentum": 0.9, "nesterov": True}), ("Adam", {"weight_decay": 0.1}),
                                          ("AdamW", {"betas": (0.8, 0.99)})])
def test_optimizers_are_pytorchs(name, options):
    torch = pytest.importorskip("torch")
    start, target = np.linspace(-1, 1, 6, dtype=np.float32), np.float32(0.3)
    theirs = torch.nn.Parameter(torch.tensor(start))
    ours = heed.tensor(start, requires_grad=True)
    reference = getattr(torch.optim, name)([theirs], lr=0.05, **options)
    optimizer = getattr(optim, name)([ours], lr=0.05, **options)
    for _ in range(20):
        for parameter, each in ((theirs, reference), (ours, optimizer)):
            each.zero_grad()
            ((parameter - float(target)) ** 2).sum().backward()
            each.step()
    same(ours.detach(), theirs, 1e-5)


def test_losses_are_pytorchs():
    torch = pytest.importorskip("torch")
    logits, target = torch.randn(6, 5), torch.tensor([0, 4, 2, -100, 1, 1])
    mine = heed.from_dlpack(logits)
    for options in ({}, {"label_smoothing": 0.1}):
        same(F.cross_entropy(mine, heed.from_dlpack(target), **options),
             torch.nn.functional.cross_entropy(logits, target, **options))
    spatial, classes = torch.randn(2, 5, 3), torch.randint(0, 5, (2, 3))
    same(F.cross_entropy(heed.from_dlpack(spatial), heed.from_dlpack(classes)),
         torch.nn.functional.cross_entropy(spatial, classes))
