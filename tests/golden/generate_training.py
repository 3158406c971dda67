"""Ten AdamW steps each: GPT-2, BERT, and the tutorials' Transformer and LSTM translation models."""

import json

import torch
import transformers as hf
from torch import nn
from torch.nn import functional as F

from common import HERE, save, seed
from generate_models import bert, causal, checkpoint_names, gpt2, masked, save_model
from seq2seq import Rnn, Transformer

STEPS = 10
SHARED = {"vocab_size": 19, "decoder_vocab_size": 17, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
          "decoder_start_token_id": 1}
TRANSFORMER = {"model_type": "heed-seq2seq", **SHARED, "d_model": 16, "encoder_layers": 2, "decoder_layers": 2,
               "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 24,
               "decoder_ffn_dim": 24, "activation_function": "relu", "scale_embedding": True, "layer_norm_eps": 1e-5,
               "max_position_embeddings": 32}
RNN = {"model_type": "heed-rnn-seq2seq", **SHARED, "attention": "bahdanau", "d_model": 8, "hidden_size": 12,
       "attention_size": 10}


def translation():
    """Three pairs a batch: the target is the source backwards, in the other vocabulary."""
    lengths = torch.randint(3, 8, (3,))
    length = 7
    source, target = torch.zeros(3, length).long(), torch.zeros(3, length + 1).long()
    for row, real in enumerate(lengths):
        words = torch.randint(3, SHARED["decoder_vocab_size"], (real,))
        source[row, :real] = words
        target[row, :real + 1] = torch.cat([words.flip(0), torch.tensor([SHARED["eos_token_id"]])])
    start = torch.full((3, 1), SHARED["decoder_start_token_id"])
    return {"input_ids": source, "attention_mask": (source != 0).long(),
            "decoder_input_ids": torch.cat([start, target[:, :-1]], 1), "labels": target.masked_fill(target == 0, -100)}


def translation_loss(model, batch):
    inputs = {name: value for name, value in batch.items() if name != "labels"}
    return F.cross_entropy(model(**inputs)["logits"].flatten(0, 1), batch["labels"].flatten())


def train(folder, model, batches, loss_of, names, **options):
    """Writes batches, losses before each update, gradient norms (nothing is clipped) and the final weights."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=options["lr"], betas=(options["beta1"], options["beta2"]),
                                  eps=options["eps"], weight_decay=options["weight_decay"])
    losses, norms = [], []
    for batch in batches:
        optimizer.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()
        norms.append(nn.utils.get_total_norm([value.grad for value in model.parameters()]))
        losses.append(loss.detach())
        optimizer.step()
    save(folder / "batches.safetensors", {name: torch.stack([batch[name] for batch in batches]) for name in batches[0]})
    save(folder / "expected.safetensors", {"losses": torch.stack(losses), "grad_norms": torch.stack(norms)},
         optimizer="AdamW", **options)
    save(folder / "final.safetensors", names({name: value.detach() for name, value in model.named_parameters()}))


def hugging_face(name, build, config, batch_of, **options):
    config._attn_implementation = "eager"
    model = build(config).eval()
    folder = HERE / "training" / name
    save_model(model, folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    model = model.double()
    train(folder, model, [batch_of() for _ in range(STEPS)], lambda model, batch: model(**batch).loss,
          lambda values: checkpoint_names(model, values), **options)


def tutorial(name, build, config, check, **options):
    model = build(config)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.3)
    folder = HERE / "training" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    save(folder / "model.safetensors", model.state_dict(), format="pt")
    batches = [translation() for _ in range(STEPS)]
    model = model.double()
    first = {name: value for name, value in batches[0].items() if name != "labels"}
    check(model, first)
    save(folder / "outputs.safetensors", {"loss": translation_loss(model, batches[0]), **model(**first)})
    train(folder, model, batches, translation_loss, dict, **options)


def agrees_with_torch_transformer(model, batch):
    """The same weights in nn.Transformer, which packs q, k and v into one."""
    sizes = (TRANSFORMER[name] for name in ("d_model", "encoder_attention_heads", "encoder_layers", "decoder_layers",
                                            "encoder_ffn_dim"))
    theirs = nn.Transformer(*sizes, dropout=0.0, batch_first=True).double()
    renamed = {}
    for name, value in model.state_dict().items():
        if "_proj." in name and "out_proj" not in name:
            continue
        for mine, other in (("layer_norm", "norm"), ("self_attn_norm", "norm1"), ("fc", "linear"),
                            ("encoder_attn_norm", "norm2"), ("encoder_attn.", "multihead_attn."),
                            ("final_norm", "norm3" if name.startswith("decoder.layers") else "norm2")):
            name = name.replace(mine, other)
        renamed[name] = value
    for name in theirs.state_dict():
        if "in_proj_" in name:
            stem, kind = name.replace("multihead_attn", "encoder_attn").split("in_proj_")
            renamed[name] = torch.cat([model.state_dict()[f"{stem}{part}_proj.{kind}"] for part in "qkv"])
    theirs.load_state_dict({name: renamed[name] for name in theirs.state_dict()})
    padded, length = batch["attention_mask"] == 0, batch["decoder_input_ids"].shape[1]
    output = theirs(model.encoder.embed(batch["input_ids"]), model.decoder.embed(batch["decoder_input_ids"]),
                    tgt_mask=torch.ones(length, length).bool().triu(1), src_key_padding_mask=padded,
                    memory_key_padding_mask=padded)
    torch.testing.assert_close(model.lm_head(output), model(**batch)["logits"])


def agrees_with_torch_lstm(model, batch):
    """The encoder against nn.LSTM over packed sequences."""
    cell = model.encoder.lstm
    theirs = nn.LSTM(cell.input_size, cell.hidden_size, batch_first=True).double()
    theirs.load_state_dict({f"{name}_l0": value for name, value in cell.state_dict().items()})
    packed = nn.utils.rnn.pack_padded_sequence(model.encoder.embed_tokens(batch["input_ids"]),
                                               batch["attention_mask"].sum(1), batch_first=True, enforce_sorted=False)
    output = nn.utils.rnn.pad_packed_sequence(theirs(packed)[0], batch_first=True)[0]
    mine = model(**batch)["encoder_last_hidden_state"]
    torch.testing.assert_close(output, mine[:, :output.shape[1]])


if __name__ == "__main__":
    seed(6)
    hf.utils.logging.disable_progress_bar()
    dropless_gpt2 = gpt2(n_embd=18, n_inner=None, initializer_range=0.1, resid_pdrop=0.0, embd_pdrop=0.0,
                         attn_pdrop=0.0)
    dropless_bert = bert(initializer_range=0.1, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    hugging_face("gpt2", hf.GPT2LMHeadModel, dropless_gpt2, causal,
                 lr=3e-3, beta1=0.9, beta2=0.95, eps=1e-6, weight_decay=0.1)
    hugging_face("bert_mlm", hf.BertForMaskedLM, dropless_bert, masked,
                 lr=2e-3, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.01)
    tutorial("seq2seq", Transformer, TRANSFORMER, agrees_with_torch_transformer,
             lr=3e-3, beta1=0.9, beta2=0.98, eps=1e-6, weight_decay=0.01)
    tutorial("rnn_seq2seq", Rnn, RNN, agrees_with_torch_lstm,
             lr=1e-2, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.0)
