"""Chat templates rendered by transformers: what heed's own interpreter of Jinja has to give.

    generate_chat.py                                 renders chat/*.jinja into chat/*.json
    generate_chat.py --templates FOLDER --out FOLDER  the same for templates of others, which are not committed:
        *.jinja files, and tokenizer_config.json files in folders below

The second form makes a folder for the test ChatTemplateModels: HEED_MODELS=… expects it as $HEED_MODELS/chat.
"""

import argparse
import datetime
import json
import os
import time
from pathlib import Path

os.environ["TZ"] = "UTC"
time.tzset()

from transformers.utils import chat_template_utils  # noqa: E402

HERE = Path(__file__).parent
NOW = 1721997296  # 2024-07-26 12:34:56 UTC
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Gives the weather in a city.\nTakes <name> & \"country\".",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "The city's name"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
                "days": {"type": "integer", "minimum": 1, "default": 3},
                "where": {"type": "object", "properties": {"lat": {"type": "number"}, "lon": {"type": "number"}}},
                "tags": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["city"],
        },
        "return": {"type": "string", "description": "A sentence"},
    },
}
ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Adds two numbers",
        "parameters": {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}, "required": ["a", "b"]},
    },
}
CALL = {"type": "function", "id": "abcdef012", "function": {"name": "get_weather", "arguments": {"city": "서울", "days": 2}}}
CALL2 = {"type": "function", "id": "ghijkl345", "function": {"name": "add", "arguments": {"a": 1, "b": 2.5}}}

USER = {"role": "user", "content": "Hello, <b>world</b>! \U0001f44b"}
ANSWER = {"role": "assistant", "content": "  Hi there. 'How' can I \"help\"?\n"}
SYSTEM = {"role": "system", "content": "You are a helpful assistant.\nBe brief."}
KOREAN = {"role": "user", "content": "안녕하세요, 날씨가 어때요?"}

CASES = [
    {"messages": [USER]},
    {"messages": [USER], "add_generation_prompt": True},
    {"messages": [SYSTEM, USER], "add_generation_prompt": True},
    {"messages": [USER, ANSWER, KOREAN], "add_generation_prompt": True},
    {"messages": [SYSTEM, USER, ANSWER, KOREAN, {"role": "assistant", "content": "맑아요."}]},
    {"messages": [SYSTEM, USER, {"role": "assistant", "content": "<think>\nHm.\n</think>\n\nYes."}, KOREAN], "add_generation_prompt": True},
    {"messages": [SYSTEM, USER], "add_generation_prompt": True, "variables": {"enable_thinking": False}},
    {"messages": [SYSTEM, USER], "add_generation_prompt": True, "variables": {"enable_thinking": True, "reasoning_effort": "high"}},
    {"messages": [SYSTEM, KOREAN], "tools": [WEATHER, ADD], "add_generation_prompt": True},
    {"messages": [KOREAN], "tools": [WEATHER]},
    {"messages": [KOREAN, {"role": "assistant", "content": "", "tool_calls": [CALL]},
                  {"role": "tool", "name": "get_weather", "tool_call_id": "abcdef012", "content": "{\"temp\": 21}"}],
     "tools": [WEATHER], "add_generation_prompt": True},
    {"messages": [SYSTEM, KOREAN, {"role": "assistant", "content": None, "tool_calls": [CALL, CALL2]},
                  {"role": "tool", "name": "get_weather", "tool_call_id": "abcdef012", "content": "sunny"},
                  {"role": "tool", "name": "add", "tool_call_id": "ghijkl345", "content": "3.5"},
                  {"role": "assistant", "content": "It is sunny."}, USER],
     "tools": [WEATHER, ADD], "add_generation_prompt": True},
    {"messages": [USER, {"role": "assistant", "reasoning_content": "Let me think.", "content": "Done."}, KOREAN], "add_generation_prompt": True},
    {"messages": [{"role": "user", "content": [{"type": "text", "text": "What is "}, {"type": "text", "text": "this?"}]}], "add_generation_prompt": True},
    {"messages": [USER, USER]},
    {"messages": [ANSWER]},
    {"messages": []},
    {"messages": [{"role": "moderator", "content": "x"}]},
    {"messages": [USER], "documents": [{"title": "One", "text": "First."}, {"title": "Two", "text": "Second."}], "add_generation_prompt": True},
]


def compiled(source):
    template = chat_template_utils._compile_jinja_template(source)
    template.environment.globals["strftime_now"] = lambda form: datetime.datetime.fromtimestamp(NOW).strftime(form)
    return template


def byte_spans(text, spans):
    return [[len(text[:begin].encode()), len(text[:end].encode())] for begin, end in spans]


def rendered(template, case, tokens):
    variables = dict(tokens)
    variables.update(messages=case["messages"], tools=case.get("tools"), documents=case.get("documents"),
                     add_generation_prompt=case.get("add_generation_prompt", False))
    variables.update(case.get("variables", {}))
    result = dict(case)
    try:
        if "generation" in template.source_text and "{%" in template.source_text and "endgeneration" in template.source_text:
            text, spans = chat_template_utils._render_with_assistant_indices(template.inner, variables.pop("messages"), **{
                "tools": variables.pop("tools"), "documents": variables.pop("documents"),
                "add_generation_prompt": variables.pop("add_generation_prompt")}, **variables)
            result["assistant"] = byte_spans(text, spans)
        else:
            text = template.inner.render(**variables)
        result["text"] = text
    except Exception as error:  # what a template raises, and what Python does where it goes wrong
        result["error"] = f"{type(error).__name__}: {error}"[:200]
    return result


class Source:
    def __init__(self, source):
        self.source_text = source
        self.inner = compiled(source)


def write(path, source, tokens):
    template = Source(source)
    document = {"now": NOW, "template": source, "special_tokens": tokens, "cases": [rendered(template, case, tokens) for case in CASES]}
    path.write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    good = sum("text" in case for case in document["cases"])
    print(f"{path.name}: {good} of {len(CASES)} cases render")


def token_text(value):
    return value["content"] if isinstance(value, dict) else value


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--templates", type=Path, default=HERE / "chat")
    options.add_argument("--out", type=Path, default=HERE / "chat")
    options = options.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for path in sorted(options.templates.rglob("*.jinja")):
        write(options.out / f"{path.stem}.json", path.read_text(encoding="utf-8"), TOKENS)
    for path in sorted(options.templates.rglob("tokenizer_config.json")):
        config = json.loads(path.read_text(encoding="utf-8"))
        found = config.get("chat_template")
        tokens = {name: token_text(config[name]) for name in
                  ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token") if config.get(name)}
        name = "-".join(path.relative_to(options.templates).parts[:-1])
        for each in found if isinstance(found, list) else [{"name": "default", "template": found}]:
            if each["template"]:
                write(options.out / f"{name}-{each['name']}.json", each["template"], tokens)


if __name__ == "__main__":
    main()
