"""A Transformer that adds two: [10, 20, 30, 40, 50] becomes [12, 22, 32, 42, 52]."""
import torch
import torch.nn as nn
import torch.optim as optim


class PlusTwoTransformer(nn.Module):
    def __init__(self, d_model=32, nhead=4, num_layers=1, dim_feedforward=64):
        super().__init__()
        self.src_embed = nn.Linear(1, d_model)
        self.tgt_embed = nn.Linear(1, d_model)
        self.position = nn.Parameter(torch.randn(1, 16, d_model) * 0.1)
        self.transformer = nn.Transformer(
            d_model, nhead, num_layers, num_layers, dim_feedforward, dropout=0.0, batch_first=True
        )
        self.out = nn.Linear(d_model, 1)

    def forward(self, src, tgt):
        src = self.src_embed(src) + self.position[:, : src.size(1)]
        tgt = self.tgt_embed(tgt) + self.position[:, : tgt.size(1)]
        mask = nn.Transformer.generate_square_subsequent_mask(tgt.size(1))
        return self.out(self.transformer(src, tgt, tgt_mask=mask))


def batch(size=64, length=5):
    start = torch.randint(0, 50, (size, 1))
    step = torch.randint(0, 12, (size, 1))
    src = (start + step * torch.arange(length)).unsqueeze(-1).float() / 100
    tgt = src + 0.02
    tgt_in = torch.cat([torch.zeros(size, 1, 1), tgt[:, :-1]], dim=1)
    return src, tgt_in, tgt


def main(steps=300):
    torch.manual_seed(0)
    model = PlusTwoTransformer()
    criterion = nn.MSELoss()
    optimizer = optim.Adam(model.parameters(), lr=3e-3)
    for step in range(steps):
        src, tgt_in, tgt = batch()
        loss = criterion(model(src, tgt_in), tgt)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        src = torch.tensor([[10.0, 20.0, 30.0, 40.0, 50.0]]).unsqueeze(-1) / 100
        tgt = torch.zeros(1, 1, 1)
        for _ in range(5):
            next_value = model(src, tgt)[:, -1:]
            tgt = torch.cat([tgt, next_value], dim=1)
    return [round(100 * value, 1) for value in tgt[0, 1:, 0].tolist()], loss.item()


if __name__ == "__main__":
    print(main())
