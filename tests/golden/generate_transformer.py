"""Writes transformer/*.safetensors: PyTorch's attention and Transformer layers with random weights, on random inputs.

Names: `state.NAME` are the layer's own parameters, `x`, `memory`, `padding` its inputs, `output`, `weights` what it returns.
"""
import torch

from common import HERE, rounded, save, seed


def randomised(layer, number):
    """The layer with every parameter drawn anew, norms and biases too, so that a swap of two of them shows."""
    seed(number)
    layer = layer.double().eval()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(rounded(*parameter.shape, std=0.3).float())
    return layer


def save_layer(name, layer, **tensors):
    tensors.update({"state." + key: value for key, value in layer.state_dict().items()})
    save(f"transformer/{name}.safetensors", tensors)


def main():
    (HERE / "transformer").mkdir(exist_ok=True)
    seed(0)
    x, memory = rounded(2, 5, 12), rounded(2, 7, 12)
    padding = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], dtype=torch.uint8)

    attention = randomised(torch.nn.MultiheadAttention(12, 3, batch_first=True), 1)
    output, weights = attention(x, memory, memory, average_attn_weights=False)
    save_layer("attention", attention, x=x, memory=memory, output=output, weights=weights)

    for name, pre_norm in (("encoder_pre_norm", True), ("encoder_post_norm", False)):
        layer = torch.nn.TransformerEncoderLayer(12, 3, 20, activation="gelu", batch_first=True, norm_first=pre_norm)
        norm = torch.nn.LayerNorm(12) if pre_norm else None
        encoder = randomised(torch.nn.TransformerEncoder(layer, 2, norm, enable_nested_tensor=False), 2)
        output = encoder(x, src_key_padding_mask=padding == 0)
        save_layer(name, encoder, x=x, padding=padding, output=output * padding[:, :, None])

    layer = torch.nn.TransformerDecoderLayer(12, 3, 20, activation="relu", batch_first=True, norm_first=True)
    decoder = randomised(torch.nn.TransformerDecoder(layer, 2, torch.nn.LayerNorm(12)), 3)
    causal = torch.nn.Transformer.generate_square_subsequent_mask(5, dtype=torch.float64)
    save_layer("decoder", decoder, x=x, memory=memory, output=decoder(x, memory, tgt_mask=causal))


if __name__ == "__main__":
    main()
