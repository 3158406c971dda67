"""Encoders of generate_families.py: name -> model class, configuration, inputs."""

import torch
import transformers as hf

from generate_models import BATCH, LENGTH, VOCAB, classified, masked, segments, tagged, tokens

ENCODER = dict(vocab_size=VOCAB, hidden_size=18, num_hidden_layers=2, num_attention_heads=3, intermediate_size=28,
               max_position_embeddings=16)


def without(inputs, *names):
    return {key: value for key, value in inputs.items() if key not in names}


def padded_with(inputs, padding):
    """The same with another padding id than 0."""
    ids = inputs["input_ids"].masked_fill(inputs["attention_mask"] == 0, padding)
    return {**inputs, "input_ids": ids}


def answered(segmented=False):
    """Where answers begin and end; the second one begins outside the text."""
    inputs = tokens()
    extra = {"token_type_ids": segments(inputs)} if segmented else {}
    return {**inputs, **extra, "start_positions": torch.tensor([2, LENGTH + 3]), "end_positions": torch.tensor([5, 4])}


def replaced():
    inputs = tokens()
    return {**inputs, "token_type_ids": segments(inputs), "labels": torch.randint(0, 2, (BATCH, LENGTH))}


def untyped(inputs, padding=1):
    return padded_with(without(inputs, "token_type_ids"), padding)


def roberta(config=hf.RobertaConfig, **changes):
    return config(**{**ENCODER, "type_vocab_size": 1, "pad_token_id": 1, **changes})


def electra(**changes):
    return hf.ElectraConfig(**{**ENCODER, "embedding_size": 10, **changes})


def mpnet(**changes):
    return hf.MPNetConfig(**{**ENCODER, "max_position_embeddings": 44, **changes})


def albert(**changes):
    return hf.AlbertConfig(**{**ENCODER, "embedding_size": 10, "pad_token_id": 0, **changes})


def distilbert(**changes):
    return hf.DistilBertConfig(vocab_size=VOCAB, dim=16, n_layers=2, n_heads=4, hidden_dim=28,
                               max_position_embeddings=16, **changes)


def modernbert(**changes):
    return hf.ModernBertConfig(**{**without(ENCODER, "max_position_embeddings"), "hidden_size": 24, "local_attention": 4,
                                  "num_hidden_layers": 4, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
                                  "cls_token_id": 1, "sep_token_id": 2, **changes})


def deberta(**changes):
    return hf.DebertaV2Config(**{**ENCODER, "type_vocab_size": 0, "relative_attention": True,
                                 "position_biased_input": False, "position_buckets": 4, "norm_rel_ebd": "layer_norm",
                                 "share_att_key": True, "pos_att_type": "p2c|c2p", **changes})


def long_inputs(length, real, labels=None, **extra):
    """Two rows of `length`, the second padded; labels of tokens, or of sequences."""
    inputs = {**tokens(length, real), **extra}
    if labels == "tokens":
        hidden = (torch.rand(BATCH, length) < 0.5) & inputs["attention_mask"].bool()
        inputs["labels"] = torch.randint(3, VOCAB, (BATCH, length)).masked_fill(~hidden, -100)
    elif labels:
        inputs["labels"] = torch.randint(0, labels, (BATCH,))
    return inputs


def longformer(**changes):
    return hf.LongformerConfig(**{**ENCODER, "type_vocab_size": 1, "pad_token_id": 1, "max_position_embeddings": 40,
                                  "attention_window": [4, 6], "sep_token_id": 2, **changes})


def big_bird(**changes):
    return hf.BigBirdConfig(**{**ENCODER, "max_position_embeddings": 40, "block_size": 2, "num_random_blocks": 1,
                               "pad_token_id": 0, **changes})


def fnet(**changes):
    return hf.FNetConfig(**{**without(ENCODER, "num_attention_heads"), "pad_token_id": 0, **changes})


def nystromformer(**changes):
    return hf.NystromformerConfig(**{**ENCODER, "num_landmarks": 4, "segment_means_seq_len": 24, "conv_kernel_size": 5,
                                     "max_position_embeddings": 30, "pad_token_id": 0, **changes})


def with_question(inputs):
    """Ids 2 end the question and the text behind it, as `</s>` does."""
    ids = inputs["input_ids"].clone()
    ids[:, 4] = ids[:, 5] = ids[:, 12] = 2
    return {**inputs, "input_ids": ids, "start_positions": torch.tensor([7, 6]), "end_positions": torch.tensor([9, 8])}


CASES = {
    "bert_qa": (hf.BertForQuestionAnswering, lambda: hf.BertConfig(**ENCODER), lambda: answered(True)),
    "distilbert_tag": (hf.DistilBertForTokenClassification, lambda: distilbert(num_labels=5),
                       lambda: without(tagged(5), "token_type_ids")),
    "distilbert_qa": (hf.DistilBertForQuestionAnswering, lambda: distilbert(activation="relu"), answered),
    "roberta_mlm": (hf.RobertaForMaskedLM, lambda: roberta(hidden_act="relu"), lambda: untyped(masked())),
    "roberta_classify": (hf.RobertaForSequenceClassification, lambda: roberta(num_labels=3, pad_token_id=4),
                         lambda: untyped(classified(3), 4)),
    "roberta_tag": (hf.RobertaForTokenClassification, lambda: roberta(num_labels=5, type_vocab_size=2),
                    lambda: padded_with(tagged(5), 1)),
    "roberta_qa": (hf.RobertaForQuestionAnswering, roberta, lambda: untyped(answered())),
    "roberta_base": (hf.RobertaModel, lambda: roberta(layer_norm_eps=1e-3), lambda: untyped(tokens())),
    "xlm_roberta_mlm": (hf.XLMRobertaForMaskedLM, lambda: roberta(hf.XLMRobertaConfig), lambda: untyped(masked())),
    "xlm_roberta_rank": (hf.XLMRobertaForSequenceClassification, lambda: roberta(hf.XLMRobertaConfig, num_labels=1),
                         lambda: {**untyped(tokens()), "labels": torch.randn(BATCH)}),
    "camembert_mlm": (hf.CamembertForMaskedLM, lambda: roberta(hf.CamembertConfig, num_hidden_layers=1),
                      lambda: untyped(masked())),
    "electra_mlm": (hf.ElectraForMaskedLM, lambda: electra(hidden_act="relu"), masked),
    "electra_replaced": (hf.ElectraForPreTraining, electra, replaced),
    "electra_classify": (hf.ElectraForSequenceClassification, lambda: electra(num_labels=3, embedding_size=18),
                         lambda: classified(3, True)),
    "electra_tag": (hf.ElectraForTokenClassification, lambda: electra(num_labels=5), lambda: tagged(5)),
    "electra_qa": (hf.ElectraForQuestionAnswering, electra, lambda: answered(True)),
    "electra_base": (hf.ElectraModel, electra, tokens),
    "mpnet_mlm": (hf.MPNetForMaskedLM, mpnet, lambda: untyped(masked())),
    "mpnet_classify": (hf.MPNetForSequenceClassification, lambda: mpnet(num_labels=3), lambda: untyped(classified(3))),
    "mpnet_tag": (hf.MPNetForTokenClassification, lambda: mpnet(num_labels=5), lambda: untyped(tagged(5))),
    "mpnet_qa": (hf.MPNetForQuestionAnswering, mpnet, lambda: untyped(answered())),
    # Long enough for buckets that hold several distances.
    "mpnet_base": (hf.MPNetModel, lambda: mpnet(num_hidden_layers=1), lambda: untyped(tokens(40, 33))),
    "albert_mlm": (hf.AlbertForMaskedLM, lambda: albert(num_hidden_layers=3, hidden_act="gelu"), masked),
    "albert_classify": (hf.AlbertForSequenceClassification,
                        lambda: albert(num_labels=3, num_hidden_layers=5, num_hidden_groups=2),
                        lambda: classified(3, True)),
    "albert_tag": (hf.AlbertForTokenClassification, lambda: albert(num_labels=5, inner_group_num=2), lambda: tagged(5)),
    "albert_qa": (hf.AlbertForQuestionAnswering, albert, lambda: answered(True)),
    "albert_base": (hf.AlbertModel, albert, tokens),
    "modernbert_mlm": (hf.ModernBertForMaskedLM, lambda: modernbert(num_hidden_layers=2),
                       lambda: without(masked(), "token_type_ids")),
    "modernbert_classify": (hf.ModernBertForSequenceClassification,
                            lambda: modernbert(num_labels=3, classifier_pooling="mean", norm_bias=True, mlp_bias=True,
                                               attention_bias=True, classifier_bias=True, hidden_activation="silu"),
                            lambda: classified(3)),
    "modernbert_tag": (hf.ModernBertForTokenClassification,
                       lambda: modernbert(num_labels=5, num_hidden_layers=2, global_attn_every_n_layers=2),
                       lambda: without(tagged(5), "token_type_ids")),
    # Windows wide enough that padding sees a real token: the reference spreads a row that sees none evenly.
    "modernbert_qa": (hf.ModernBertForQuestionAnswering, lambda: modernbert(num_hidden_layers=2, local_attention=6),
                      answered),
    "modernbert_base": (hf.ModernBertModel, modernbert, tokens),
    "deberta_mlm": (hf.DebertaV2ForMaskedLM, deberta, lambda: without(masked(), "token_type_ids")),
    "deberta_classify": (hf.DebertaV2ForSequenceClassification,
                         lambda: deberta(num_labels=3, share_att_key=False, position_buckets=-1,
                                         max_relative_positions=5, norm_rel_ebd="none", type_vocab_size=2,
                                         position_biased_input=True), lambda: classified(3, True)),
    "deberta_tag": (hf.DebertaV2ForTokenClassification,
                    lambda: deberta(num_labels=5, conv_kernel_size=3, conv_act="gelu", pos_att_type=["c2p"]),
                    lambda: without(tagged(5), "token_type_ids")),
    "deberta_qa": (hf.DebertaV2ForQuestionAnswering,
                   lambda: deberta(conv_kernel_size=5, conv_groups=3, pos_att_type=["p2c"], share_att_key=False),
                   answered),
    "deberta_base": (hf.DebertaV2Model, lambda: deberta(embedding_size=10, max_position_embeddings=44),
                     lambda: tokens(40, 33)),
    "longformer_mlm": (hf.LongformerForMaskedLM, longformer, lambda: untyped(long_inputs(24, 17, "tokens"))),
    "longformer_classify": (hf.LongformerForSequenceClassification, lambda: longformer(num_labels=3, attention_window=6),
                            lambda: untyped(long_inputs(21, 17, 3))),
    "longformer_qa": (hf.LongformerForQuestionAnswering, longformer, lambda: with_question(untyped(long_inputs(24, 24)))),
    "longformer_base": (hf.LongformerModel, longformer,
                        lambda: {**untyped(long_inputs(24, 17)),
                                 "global_attention_mask": (torch.arange(24) % 7 == 2).long().expand(BATCH, 24).clone()}),
    "big_bird_mlm": (hf.BigBirdForMaskedLM, lambda: big_bird(rescale_embeddings=True, use_bias=False),
                     lambda: long_inputs(24, 17, "tokens")),
    "big_bird_classify": (hf.BigBirdForSequenceClassification, lambda: big_bird(num_labels=3),
                          lambda: long_inputs(23, 17, 3)),
    "big_bird_full": (hf.BigBirdForTokenClassification, lambda: big_bird(num_labels=5, attention_type="original_full"),
                      lambda: tagged(5)),
    "big_bird_qa": (hf.BigBirdForQuestionAnswering, lambda: big_bird(sep_token_id=2),
                    lambda: with_question(untyped(long_inputs(24, 24)))),
    "big_bird_base": (hf.BigBirdModel, big_bird, lambda: long_inputs(24, 21)),
    "fnet_mlm": (hf.FNetForMaskedLM, fnet, lambda: without(masked(), "attention_mask")),
    "fnet_classify": (hf.FNetForSequenceClassification, lambda: fnet(num_labels=3, hidden_size=16),
                      lambda: without(classified(3, True), "attention_mask")),
    "fnet_qa": (hf.FNetForQuestionAnswering, fnet, lambda: without(answered(True), "attention_mask")),
    "fnet_base": (hf.FNetModel, fnet, lambda: without(tokens(), "attention_mask")),
    # Without a mask: with one, transformers 5.22 adds [B, 1, T, T] to scores of landmarks [B, H, L, T] and fails.
    "nystromformer_mlm": (hf.NystromformerForMaskedLM, nystromformer,
                          lambda: without(long_inputs(24, 24, "tokens"), "attention_mask")),
    "nystromformer_classify": (hf.NystromformerForSequenceClassification,
                               lambda: nystromformer(num_labels=3, hidden_act="relu"),
                               lambda: without(long_inputs(24, 24, 3), "attention_mask")),
    "nystromformer_full": (hf.NystromformerForTokenClassification,
                           lambda: nystromformer(num_labels=5, num_landmarks=8, segment_means_seq_len=8,
                                                 conv_kernel_size=3), lambda: tagged(5)),
    "nystromformer_base": (hf.NystromformerModel, lambda: nystromformer(conv_kernel_size=65),
                           lambda: without(long_inputs(24, 24), "attention_mask")),
}

def question_tokens(inputs):
    """What stands in front of the first separator, which Longformer's answers attend to."""
    ends = (inputs["input_ids"] == 2).int().argmax(1, keepdim=True)
    return (torch.arange(inputs["input_ids"].shape[1]) < ends).long()


# Which tokens attend to all, where the weights come in windows.
WHOLE = {
    "longformer_mlm": lambda inputs: None,
    "longformer_classify": lambda inputs: (torch.arange(inputs["input_ids"].shape[1]) == 0).long().expand(BATCH, -1),
    "longformer_qa": question_tokens,
    "longformer_base": lambda inputs: inputs["global_attention_mask"],
}
# Their attentions are not [B, H, T, T]: windows, blocks, landmarks, or none at all.
WITHOUT_ATTENTIONS = {name for name in CASES if name.startswith(("longformer", "big_bird", "fnet", "nystromformer"))}
