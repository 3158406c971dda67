"""The same folders in Hugging Face's transformers: logits, gradients, generated text and results of pipelines."""
import numpy as np
import pytest

import heed

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
TEXTS = ["the quick brown fox jumps over the lazy dog", "역사를 배우는 사람은 미래를 안다"]


def saved(folder, model, tokenizer=None):
    torch.manual_seed(1)
    for parameter in model.parameters():  # random, and large enough to matter
        torch.nn.init.normal_(parameter, std=0.2)
    model.eval().save_pretrained(folder)
    if tokenizer is not None:
        tokenizer.save(folder)
    return folder


@pytest.fixture(scope="module")
def words():
    return heed.Tokenizer.train(TEXTS * 3, "wordpiece:120", min_frequency=1)


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory):
    config = transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, n_positions=64, vocab_size=97)
    return saved(tmp_path_factory.mktemp("gpt2"), transformers.GPT2LMHeadModel(config))


def models():
    c = transformers
    return {
        "gpt2": lambda: c.GPT2LMHeadModel(c.GPT2Config(n_embd=32, n_layer=2, n_head=4, n_positions=64, vocab_size=97)),
        "llama": lambda: c.LlamaForCausalLM(c.LlamaConfig(**SIZES, num_key_value_heads=2, vocab_size=97, max_position_embeddings=64)),
        "bert": lambda: c.BertForMaskedLM(c.BertConfig(**SIZES, vocab_size=97, max_position_embeddings=64)),
        "roberta": lambda: c.RobertaForSequenceClassification(c.RobertaConfig(**SIZES, vocab_size=97, max_position_embeddings=66, num_labels=3)),
        "t5": lambda: c.T5ForConditionalGeneration(c.T5Config(d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, vocab_size=97,
                                                              decoder_start_token_id=0)),
    }


@pytest.mark.parametrize("name", sorted(models()))
def test_logits_loss_and_gradients(name, tmp_path):
    folder = saved(tmp_path, models()[name]())
    theirs = getattr(transformers, transformers.AutoConfig.from_pretrained(folder).architectures[0]).from_pretrained(folder).eval()
    ours = heed.load(folder, trainable=True)
    ours.eval()
    ids = np.array([[5, 9, 23, 42, 7, 11], [3, 3, 60, 96, 2, 8]])
    labels = np.array([1, 2]) if name == "roberta" else ids.copy()
    expected = theirs(input_ids=torch.tensor(ids), labels=torch.tensor(labels))
    result = ours(ids, labels=labels)
    np.testing.assert_allclose(result.logits.detach().numpy(), expected.logits.detach().numpy(), rtol=1e-4, atol=1e-4)
    assert result.loss.item() == pytest.approx(expected.loss.item(), rel=1e-5)
    expected.loss.backward()
    result.loss.backward()
    gradients = {key: value.grad for key, value in ours.named_parameters()}
    compared = 0
    for key, parameter in theirs.named_parameters():
        if parameter.grad is None or key not in gradients or gradients[key] is None:
            continue
        wanted = parameter.grad.numpy()
        np.testing.assert_allclose(gradients[key].numpy(), wanted, atol=1e-4 * max(1e-3, abs(wanted).max()), rtol=1e-3, err_msg=key)
        compared += 1
    assert compared > 10


def test_attention_is_transformers_own(gpt2):
    theirs = transformers.GPT2LMHeadModel.from_pretrained(gpt2, attn_implementation="eager").eval()
    ids = [[5, 9, 23, 42, 7]]
    with torch.no_grad():
        expected = theirs(torch.tensor(ids), output_attentions=True).attentions
    with heed.record() as recorded:
        heed.load(gpt2)(ids)
    for layer, weights in enumerate(expected):
        np.testing.assert_allclose(recorded.attention(layer=layer), weights[0].numpy(), atol=1e-6)


def test_generation_is_transformers_own(tmp_path):
    tokenizer = heed.Tokenizer.train(["abcdefghijklmnopqrstuvwxyz "], "char", min_frequency=1)
    config = transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, n_positions=64, vocab_size=tokenizer.vocab_size,
                                     bos_token_id=None, eos_token_id=None)
    folder = saved(tmp_path, transformers.GPT2LMHeadModel(config), tokenizer)
    theirs = transformers.GPT2LMHeadModel.from_pretrained(folder).eval()
    prompt = tokenizer.encode("the quick")
    expected = theirs.generate(torch.tensor([prompt]), max_new_tokens=20, do_sample=False, pad_token_id=0)[0, len(prompt):].tolist()
    stream = heed.load(folder).generate("the quick", max_new_tokens=20, temperature=0)
    list(stream)
    assert stream.result["ids"] == expected


def test_pipelines_have_transformers_results(tmp_path, words):
    sizes = {**SIZES, "vocab_size": words.vocab_size, "max_position_embeddings": 64}
    config = transformers.BertConfig(**sizes, num_labels=3, id2label={0: "bad", 1: "fair", 2: "good"})
    folder = saved(tmp_path, transformers.BertForSequenceClassification(config), words)
    theirs = transformers.pipeline("text-classification", model=str(folder), tokenizer=fast_tokenizer(folder))
    ours = heed.pipeline("text-classification", folder)
    for text in TEXTS:
        [expected], result = theirs(text), ours(text)
        result = result[0] if isinstance(result, list) else result
        assert result["label"] == expected["label"] and result["score"] == pytest.approx(expected["score"], abs=1e-5)
    with torch.no_grad():
        hidden = transformers.BertModel.from_pretrained(folder).eval()(torch.tensor([words.encode(TEXTS[0])])).last_hidden_state[0]
    mean = hidden.mean(0)
    vector = heed.pipeline("feature-extraction", folder)(TEXTS[0])
    np.testing.assert_allclose(vector, (mean / mean.norm()).numpy(), atol=1e-5)


def fast_tokenizer(folder):
    return transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), pad_token="[PAD]", unk_token="[UNK]",
                                                cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]")
