"""LangChain, LlamaIndex, LiteLLM and Continue's calls against heed's server.

    frameworks.py http://127.0.0.1:PORT [ENCODER]

The server has the chat model "lm", and an encoder of that name where one is given.
"""
import json
import sys
import urllib.request

root = sys.argv[1]
encoder = sys.argv[2] if len(sys.argv) > 2 else None
base = root + "/v1"
light = {
    "name": "light",
    "description": "Switches the light.",
    "parameters": {"type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"], "additionalProperties": False},
}


def langchain():
    import langchain_openai
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

    chat = langchain_openai.ChatOpenAI(model="lm", base_url=base, api_key="none", max_tokens=12, seed=2, temperature=0, max_retries=0)
    question = [SystemMessage("the quick"), HumanMessage("brown fox")]
    whole = chat.invoke(question)
    assert whole.usage_metadata["output_tokens"] <= 12, whole
    pieces = list(chat.stream(question, stream_usage=True))
    assert "".join(piece.content for piece in pieces) == whole.content, (pieces, whole)
    assert any(piece.usage_metadata for piece in pieces)
    assert [answer.content for answer in chat.batch([question] * 4)] == [whole.content] * 4

    asked = chat.bind_tools([{"type": "function", "function": light}], tool_choice="required").bind(max_tokens=300)
    call = asked.invoke(question).tool_calls[0]
    assert call["name"] == "light" and isinstance(call["args"]["on"], bool), call
    told = chat.invoke(question + [AIMessage("", tool_calls=[call]), ToolMessage("it is on", tool_call_id=call["id"])])
    assert isinstance(told.content, str)
    shaped = chat.bind(max_tokens=300).bound.with_structured_output({"title": "light", **light["parameters"]}, method="json_schema")
    chat.max_tokens = 300
    assert isinstance(shaped.invoke(question)["on"], bool)

    responses = langchain_openai.ChatOpenAI(
        model="lm", base_url=base, api_key="none", max_tokens=300, temperature=0, max_retries=0, use_responses_api=True
    )
    call = responses.bind_tools([{"type": "function", "function": light}], tool_choice="required").invoke(question).tool_calls[0]
    assert call["name"] == "light", call
    assert "".join(piece.text for piece in responses.bind(max_tokens=12).stream(question)) is not None

    text = langchain_openai.OpenAI(model="lm", base_url=base, api_key="none", max_tokens=6, temperature=0, max_retries=0)
    assert "".join(text.stream("the fox")) == text.invoke("the fox")
    if encoder:
        vectors = langchain_openai.OpenAIEmbeddings(
            model=encoder, base_url=base, api_key="none", check_embedding_ctx_length=False, max_retries=0
        ).embed_documents(["the fox", "a dog"])
        assert len(vectors) == 2 and abs(sum(x * x for x in vectors[0]) - 1) < 1e-4
        try:
            langchain_openai.OpenAIEmbeddings(model=encoder, base_url=base, api_key="none", max_retries=0).embed_query("the fox")
            raise AssertionError("token ids of another tokenizer were embedded")
        except Exception as problem:  # the client's own type, or tiktoken's where it cannot fetch its table
            assert "check_embedding_ctx_length" in str(problem) or "tiktoken" in str(problem) or "Connection" in str(problem), problem
    return langchain_openai.__name__


def llama_index():
    from llama_index.core.llms import ChatMessage
    from llama_index.core.tools import FunctionTool
    from llama_index.llms.openai_like import OpenAILike

    model = OpenAILike(
        model="lm", api_base=base, api_key="none", is_chat_model=True, is_function_calling_model=True, max_tokens=12, temperature=0, max_retries=0
    )
    question = [ChatMessage(role="user", content="brown fox")]
    whole = model.chat(question)
    assert "".join(piece.delta or "" for piece in model.stream_chat(question)) == whole.message.content, whole
    assert isinstance(model.complete("the fox").text, str)
    tool = FunctionTool.from_defaults(fn=lambda on: on, name="light", description="Switches the light.")
    called = OpenAILike(
        model="lm", api_base=base, api_key="none", is_chat_model=True, is_function_calling_model=True, max_tokens=300, temperature=0, max_retries=0
    ).chat_with_tools([tool], user_msg="brown fox", tool_required=True)
    assert called.message.additional_kwargs["tool_calls"][0].function.name == "light", called
    plain = OpenAILike(model="lm", api_base=base, api_key="none", is_chat_model=False, max_tokens=6, temperature=0, max_retries=0)
    assert "".join(piece.delta for piece in plain.stream_complete("the fox")) == plain.complete("the fox").text
    if encoder:
        from llama_index.embeddings.openai_like import OpenAILikeEmbedding

        vectors = OpenAILikeEmbedding(model_name=encoder, api_base=base, api_key="none", max_retries=0).get_text_embedding_batch(["the fox", "a dog"])
        assert len(vectors) == 2
    return "llama_index"


def litellm():
    import litellm

    answer = litellm.completion(model="openai/lm", api_base=base, api_key="none", messages=[{"role": "user", "content": "brown fox"}], max_tokens=6)
    assert answer.usage.completion_tokens <= 6
    pieces = litellm.completion(
        model="openai/lm", api_base=base, api_key="none", messages=[{"role": "user", "content": "brown fox"}], max_tokens=6, stream=True
    )
    assert len(list(pieces)) > 0
    return "litellm"


def continues():
    """What Continue's llama.cpp provider sends."""
    body = {"prompt": "the fox", "n_predict": 6, "stream": True, "temperature": 0, "stop": ["."], "top_p": 0.9, "frequency_penalty": 0.1}
    request = urllib.request.Request(root + "/completion", json.dumps(body).encode(), {"Content-Type": "application/json", "Authorization": "Bearer none"})
    with urllib.request.urlopen(request) as stream:
        events = [json.loads(line[6:]) for line in stream if line.startswith(b"data: ")]
    assert events[-1]["stop"] is True and all("content" in event for event in events), events
    return "Continue's calls"


missing = []
for part in (langchain, llama_index, litellm, continues):
    try:
        print(part(), "works unchanged")
    except ImportError as problem:
        missing.append(f"{part.__name__}: {problem}")
for each in missing:
    print("skipped", each)
