"""Twenty AdamW steps of LoRA with PEFT on models of tests/golden/models, and of DPO; run with `peft` installed."""

import json
import shutil

import peft
import torch
import transformers as hf
from torch.nn import functional as F

from common import HERE, save, seed

STEPS = 20
RATE = 5e-3
OPTIONS = {"lr": RATE, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.01}

# name: model folder, class, PEFT's configuration
CASES = {
    "llama": ("llama_gqa", hf.AutoModelForCausalLM,
              {"target_modules": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                                  "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"], "task_type": "CAUSAL_LM"}),
    "gpt2": ("gpt2_lm", hf.AutoModelForCausalLM,
             {"target_modules": ["attn.c_attn", "attn.c_proj"], "fan_in_fan_out": True, "task_type": "CAUSAL_LM",
              "alpha_pattern": {"attn.c_proj": 3}}),
    "bert": ("bert_classify", hf.AutoModelForSequenceClassification,
             {"target_modules": ["query", "value", "attention.output.dense"], "task_type": "SEQ_CLS",
              "use_rslora": True}),
    "t5": ("t5_gated", hf.AutoModelForSeq2SeqLM, {"target_modules": ["q", "v"], "task_type": "SEQ_2_SEQ_LM"}),
}


def batch_of(model):
    words = model.config.vocab_size
    ids = torch.randint(3, words, (2, 9))
    if model.config.is_encoder_decoder:
        return {"input_ids": ids, "decoder_input_ids": torch.randint(3, words, (2, 6)),
                "labels": torch.randint(3, words, (2, 6))}
    if hasattr(model.config, "num_labels") and "SequenceClassification" in type(model).__name__:
        return {"input_ids": ids, "labels": torch.randint(0, model.config.num_labels, (2,))}
    labels = ids.clone()
    labels[:, :4] = -100
    return {"input_ids": ids, "labels": labels}


def adapted(name, folder, build, options):
    seed(5)
    model = build.from_pretrained(HERE / "models" / folder, attn_implementation="eager").eval()
    config = peft.LoraConfig(r=4, lora_alpha=8, lora_dropout=0.0, **options)
    model = peft.get_peft_model(model, config)
    for key, value in model.named_parameters():
        if "lora_B" in key:  # a start from which every gradient is at work
            value.data.normal_(std=0.05)
    target = HERE / "lora" / name
    shutil.rmtree(target, ignore_errors=True)
    write_adapter(model, target / "start", folder)
    return model, target


def write_adapter(model, target, folder):
    model.save_pretrained(target)
    (target / "README.md").unlink(missing_ok=True)
    config = json.loads((target / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = f"../../../models/{folder}"
    for key in ("target_modules", "modules_to_save"):
        config[key] = sorted(config[key]) if config[key] else config[key]
    (target / "adapter_config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def train(model, target, folder, batches, loss_of):
    weights = [value for value in model.parameters() if value.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=RATE, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)
    losses = []
    for batch in batches:
        optimizer.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    save(target / "batches.safetensors", {name: torch.stack([batch[name] for batch in batches]) for name in batches[0]})
    save(target / "expected.safetensors", {"losses": torch.stack(losses)}, **OPTIONS)
    write_adapter(model, target / "final", folder)


def log_probability(model, ids, prompt):
    logits = model(input_ids=ids).logits[:, :-1]
    picked = F.log_softmax(logits, -1).gather(2, ids[:, 1:, None])[..., 0]
    return picked[:, prompt - 1:].sum(1)


def dpo(beta=0.3, prompt=4):
    folder, build, options = CASES["llama"]
    model, target = adapted("dpo", folder, build, options)
    reference = build.from_pretrained(HERE / "models" / folder, attn_implementation="eager").eval()
    batches = []
    for _ in range(STEPS):
        chosen = torch.randint(3, model.config.vocab_size, (2, 9))
        rejected = torch.cat([chosen[:, :prompt], torch.randint(3, model.config.vocab_size, (2, 7))], 1)
        batches.append({"input_ids": chosen, "decoder_input_ids": rejected, "labels": torch.tensor([prompt, prompt])})

    def loss(model, batch):
        def margin(of):
            return log_probability(of, batch["input_ids"], prompt) - log_probability(of, batch["decoder_input_ids"],
                                                                                     prompt)
        with torch.no_grad():
            before = margin(reference)
        return -F.logsigmoid(beta * (margin(model) - before)).mean()

    OPTIONS["beta"] = beta
    train(model, target, folder, batches, loss)


if __name__ == "__main__":
    for name, (folder, build, options) in CASES.items():
        model, target = adapted(name, folder, build, options)
        train(model, target, folder, [batch_of(model.base_model.model) for _ in range(STEPS)],
              lambda model, batch: model(**batch).loss)
    dpo()
