"""Indexes, searching and answers from documents."""
import json
import pathlib
import pickle
import threading

import numpy as np
import pytest

import heed


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """A small BERT with random weights: enough to index with."""
    folder = tmp_path_factory.mktemp("encoder")
    texts = ["the history of the city and its people is long and rich. cats and dogs live here.",
             "역사를 배우는 사람은 미래를 안다. 고양이와 개가 산다. 도시의 역사는 길다."]
    tokenizer = heed.Tokenizer.train(texts, "wordpiece:160", min_frequency=1)
    config = {"model_type": "bert", "architectures": ["BertModel"], "hidden_size": 32, "num_hidden_layers": 2,
              "num_attention_heads": 4, "intermediate_size": 64, "max_position_embeddings": 128, "type_vocab_size": 2,
              "vocab_size": tokenizer.vocab_size}
    heed.create_model(config, seed=1, tokenizer=tokenizer).save(folder)
    return folder


@pytest.fixture(scope="module")
def index(encoder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("index")
    (folder / "docs").mkdir()
    (folder / "docs" / "history.txt").write_text("우리는 역사를 배운다. 도시의 역사는 길다. 사람은 미래를 안다.")
    (folder / "docs" / "cats.md").write_text("# Cats\nCats live here.\n\n## Dogs\nDogs and cats are rich.")
    rows = [{"title": f"row {i}", "text": f"the city {i * i} is long and its people number {i % 7}."} for i in range(40)]
    (folder / "docs" / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    report = heed.build_index(folder / "docs", folder / "test.heed-index", encoder)
    assert report["files"] == 3 and report["chunks"] == report["chunks_added"] == 43 and report["failed"] == []
    again = heed.build_index([folder / "docs"], folder / "test.heed-index")
    assert again["unchanged"] == 3 and again["chunks_added"] == 0
    return heed.SearchIndex(folder / "test.heed-index")


def test_search_by_words_meaning_and_both(index):
    assert len(index) == 43 and index.info["dimension"] == 32 and index.info["complete"]
    [first, *_] = index.search("city 144", mode="lexical", top_k=3)
    assert first["title"] == "row 12" and first["location"] == "row 13" and first["source"].endswith("rows.jsonl")
    assert first["rank"] == 1 and first["score"] == first["bm25"] and "144" in first["matches"] and "144" in first["snippet"]
    [found] = index.search("역사", mode="lexical")  # two syllables find the word with a particle
    assert "역사를" in found["text"]
    assert index.search("Dogs", top_k=1)[0]["title"] == "Cats › Dogs"
    with pytest.raises(heed.Error, match="dense, lexical and hybrid"):
        index.search("x", mode="magic")


def test_dense_search_is_a_product_in_numpy(index, encoder):
    everything = index.search("the", mode="dense", top_k=43)
    texts = [(each["title"] + "\n" if each["title"] else "") + each["text"] for each in everything]
    vectors = heed.pipeline("feature-extraction", encoder)(texts)
    query = heed.pipeline("feature-extraction", encoder)("dogs live")
    scores = np.sort(vectors @ query)[::-1]
    found = index.search("dogs live", mode="dense", top_k=10)
    np.testing.assert_allclose([each["score"] for each in found], scores[:10], atol=1e-5)
    by_vector = index.search(query, top_k=10)  # an array is compared as it is
    np.testing.assert_allclose([each["score"] for each in by_vector], scores[:10], atol=1e-5)


def test_threads_and_pickle(index):
    expected = index.search("its people")
    again = pickle.loads(pickle.dumps(index))
    assert again.search("its people") == expected
    results = []
    threads = [threading.Thread(target=lambda: results.append(index.search("its people"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 4
    assert "43" in index._repr_html_()


@pytest.fixture(scope="module")
def writer(tmp_path_factory):
    """A decoder with random weights whose context holds a prompt with a source."""
    import string

    folder = tmp_path_factory.mktemp("writer")
    tokenizer = heed.Tokenizer.train([string.printable], "char", min_frequency=1)
    config = {"model_type": "gpt2", "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 1024, "vocab_size": tokenizer.vocab_size}
    heed.create_model(config, seed=1, tokenizer=tokenizer).save(folder)
    return folder


def test_ask(index, writer):
    pieces: list[str] = []
    answer = index.ask("where do cats live?", writer, top_k=1, max_new_tokens=4, mode="lexical", attention=True, on_text=pieces.append)
    assert answer["answer"] == "".join(pieces) and answer["answer_tokens"] == 4
    [source] = answer["sources"]
    assert source["number"] == 1 and 0 < source["attention"] < 1
    assert source["attention"] + answer["other_attention"] == pytest.approx(1, abs=1e-5)
    with pytest.raises(ValueError, match="prompt, fid or rag"):
        index.ask("x", writer, reader="magic")
    with pytest.raises(heed.Error, match="encoder-decoder"):
        index.ask("x", writer, reader="fid")


GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "retrieval"


@pytest.mark.parametrize("name", ["fid", "rag_token_bart", "rag_sequence_t5"])
def test_passages_and_documents_are_read_as_in_the_references(name):
    inputs, expected = (heed.load_tensors(GOLDEN / name / f"{part}.safetensors") for part in ("inputs", "outputs"))
    given = {key: value for key, value in inputs.items() if not key.startswith("question")}
    if name == "fid":
        given["passages"] = 3
    output = heed.load(GOLDEN / name)(**given)
    for key in ("loss", "logits"):
        wanted = expected[key].numpy()
        np.testing.assert_allclose(output[key].numpy(), wanted, atol=1e-4 * abs(wanted).max(), err_msg=key)


def test_fid_and_rag_readers(index, encoder, tmp_path):
    words = heed.load(encoder).tokenizer
    t5 = {"model_type": "t5", "d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2, "decoder_start_token_id": 0,
          "vocab_size": words.vocab_size}
    reader = heed.create_model(t5, seed=1, tokenizer=words)
    answer = index.ask("where do cats live?", reader, reader="fid", top_k=3, max_new_tokens=4, attention=True)
    assert len(answer["sources"]) == 3 and all(source["attention"] > 0 for source in answer["sources"])

    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64, "max_position_embeddings": 64,
             "type_vocab_size": 2, "vocab_size": words.vocab_size}
    dpr = {"model_type": "dpr", "projection_dim": 12, **sizes}
    heed.create_model({**dpr, "architectures": ["DPRContextEncoder"]}, seed=2, tokenizer=words).save(tmp_path / "context")
    bart = {"model_type": "bart", "d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
            "decoder_attention_heads": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "max_position_embeddings": 64,
            "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2, "vocab_size": words.vocab_size}
    rag = {"model_type": "rag", "architectures": ["RagTokenForGeneration"], "question_encoder": dpr, "generator": bart}
    heed.create_model(rag, seed=3).save(tmp_path / "rag")
    for name in ("question_encoder_tokenizer", "generator_tokenizer"):
        words.save(tmp_path / "rag" / name)
    (tmp_path / "docs.jsonl").write_text('{"text": "the city is long"}\n{"text": "cats live here"}\n{"text": "dogs and people"}\n')
    heed.build_index(tmp_path / "docs.jsonl", tmp_path / "dpr.heed-index", tmp_path / "context")
    answer = heed.SearchIndex(tmp_path / "dpr.heed-index").ask("where do cats live?", tmp_path / "rag", reader="rag", top_k=2,
                                                               max_new_tokens=5, attention=True)
    first, second = (source["attention"] for source in answer["sources"])
    assert first >= second > 0 and first + second == pytest.approx(1, abs=1e-6)


def test_ctrl_c_and_bad_files(tmp_path, encoder):
    (tmp_path / "no.heed-index").write_text("hello")
    with pytest.raises(heed.Error, match="no index"):
        heed.SearchIndex(tmp_path / "no.heed-index")
    (tmp_path / "binary.txt").write_bytes(b"a\0b")
    (tmp_path / "fine.txt").write_text("cats live here")
    report = heed.build_index(tmp_path, tmp_path / "fine.heed-index", encoder)
    assert report["files"] == 1 and any("binary.txt" in each for each in report["failed"])
