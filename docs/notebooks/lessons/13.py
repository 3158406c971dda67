# %% slot
# %% torch
# from torch.utils.checkpoint import checkpoint
# for block in self.blocks:
#     x = checkpoint(block, x, use_reentrant=False)
#
# with torch.autocast("cpu", dtype=torch.bfloat16):
#     loss = model(ids, labels)
# %%
import heed as torch
from heed.notebook import plot

CONFIG = {"model_type": "gpt2", "n_embd": 128, "n_head": 4, "vocab_size": 256, "n_positions": 128}


def run(layers, recompute=False, dtype=torch.float32):
    torch.manual_seed(7)
    model = torch.create_model({**CONFIG, "n_layer": layers}, seed=1).gradient_checkpointing(recompute)
    ids, labels = torch.randint(0, 256, (4, 128)), torch.randint(0, 256, (4, 128))
    torch.manual_seed(7)
    torch.reset_peak_memory()
    before = torch.memory_in_use()
    with torch.autocast(dtype):
        loss = model(ids, labels=labels, want_logits=False).loss
        loss.backward()
    return loss.item(), (torch.peak_memory() - before) / 2**20, [parameter.grad for parameter in model.parameters()]


layers, kinds = (2, 4, 8), {"f32": {}, "bf16": {"dtype": torch.bfloat16}, "recomputed": {"recompute": True}}
plot({name: (layers, [run(n, **options)[1] for n in layers]) for name, options in kinds.items()},
     x_title="Layers", y_title="MB")
# %% slot
# %%
kept, recomputed, bf16 = run(8), run(8, recompute=True), run(8, dtype=torch.bfloat16)
print("recomputing takes less than half the memory:", recomputed[1] < kept[1] / 2)
print("bf16 takes less than 60 %:", bf16[1] < 0.6 * kept[1])
same = kept[0] == recomputed[0] and all((a == b).all() for a, b in zip(kept[2], recomputed[2]))
print("recomputed, loss and all gradients are the same to the bit:", same)
