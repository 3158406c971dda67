"""What the official client does with heed's server; the base URL is the only argument."""
import json
import sys

import openai



def check_length(choice, tokens, limit):
    """The model may end its text earlier, and the reason says so."""
    assert 0 < tokens <= limit, tokens
    ends = ("length", "stop") if tokens == limit else ("stop",)  # the last token may be the end token
    assert choice.finish_reason in ends, (choice.finish_reason, tokens)


client = openai.OpenAI(base_url=sys.argv[1], api_key="none", max_retries=0)

models = [model.id for model in client.models.list()]
assert models == ["lm"], models
assert client.models.retrieve("lm").id == "lm"

whole = client.completions.create(model="lm", prompt="the fox", max_tokens=8, seed=1, logprobs=2)
check_length(whole.choices[0], whole.usage.completion_tokens, 8)
assert len(whole.choices[0].logprobs.token_logprobs) == whole.usage.completion_tokens
pieces = client.completions.create(model="lm", prompt="the fox", max_tokens=8, seed=1, stream=True)
assert "".join(piece.choices[0].text for piece in pieces) == whole.choices[0].text

messages = [{"role": "user", "content": "the quick brown fox"}]
answer = client.chat.completions.create(
    model="lm", messages=messages, max_tokens=12, seed=2, n=2, logprobs=True, top_logprobs=3
)
assert len(answer.choices) == 2
assert answer.choices[0].message.role == "assistant"
for choice in answer.choices:
    check_length(choice, len(choice.logprobs.content), 12)
assert sum(len(choice.logprobs.content) for choice in answer.choices) == answer.usage.completion_tokens
assert len(answer.choices[0].logprobs.content[0].top_logprobs) == 3
assert answer.usage.prompt_tokens > 0

text, usage = "", None
for chunk in client.chat.completions.create(
    model="lm", messages=messages, max_tokens=12, seed=2, stream=True, stream_options={"include_usage": True}
):
    if chunk.choices:
        text += chunk.choices[0].delta.content or ""
    else:
        usage = chunk.usage
assert text == answer.choices[0].message.content, (text, answer.choices[0].message.content)
assert usage.completion_tokens == len(answer.choices[0].logprobs.content)

light = {
    "type": "function",
    "function": {
        "name": "light",
        "parameters": {"type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"], "additionalProperties": False},
    },
}
called = client.chat.completions.create(model="lm", messages=messages, tools=[light], tool_choice="required", max_tokens=300, seed=4)
(call,) = called.choices[0].message.tool_calls
assert called.choices[0].finish_reason == "tool_calls" and call.function.name == "light", called
assert isinstance(json.loads(call.function.arguments)["on"], bool), call
with client.chat.completions.stream(
    model="lm", messages=messages, tools=[light], tool_choice="required", max_tokens=300, seed=4
) as stream:
    streamed = stream.get_final_completion()
assert streamed.choices[0].message.tool_calls[0].function.arguments == call.function.arguments, streamed

try:
    client.audio.transcriptions.create(model="lm", file=("a.wav", b"RIFF", "audio/wav"))
    raise AssertionError("a language model transcribed")
except openai.BadRequestError as problem:
    assert "speech" in problem.body["message"], problem

response = client.responses.create(model="lm", input="the quick brown fox", max_output_tokens=10)
assert 0 < response.usage.output_tokens <= 10
assert isinstance(response.output_text, str)
with client.responses.stream(model="lm", input="the quick", max_output_tokens=6) as stream:
    events = list(stream)
kinds = [event.type for event in events]
text = events[-1].response.output_text  # may be empty: another compiler, other last bits of the small model
assert kinds[0] == "response.created" and ("response.output_text.delta" in kinds) == bool(text), (kinds, text)

for wrong, error in [
    ({"model": "nothing", "messages": messages}, openai.NotFoundError),
    ({"model": "lm", "messages": messages, "temperature": 9}, openai.BadRequestError),
    ({"model": "lm", "messages": []}, openai.BadRequestError),
]:
    try:
        client.chat.completions.create(**wrong)
        raise AssertionError(f"{wrong} was accepted")
    except error as problem:
        assert problem.body["message"], problem
print("openai", openai.__version__, "works unchanged")
