// LangChain's JavaScript client against heed's server: langchain.mjs BASE_URL
import assert from "node:assert/strict";
import { ChatOpenAI } from "@langchain/openai";

const fields = { model: "lm", apiKey: "none", configuration: { baseURL: process.argv[2] }, temperature: 0, maxRetries: 0 };
const chat = new ChatOpenAI({ ...fields, maxTokens: 12 });
const whole = await chat.invoke("the quick brown fox");
let text = "";
let usage = null;
for await (const piece of await chat.stream("the quick brown fox")) {
  text += piece.content;
  usage = piece.usage_metadata ?? usage;
}
assert.equal(text, whole.content);
assert.ok(usage && usage.output_tokens <= 12);
const light = {
  type: "function",
  function: {
    name: "light",
    description: "Switches the light.",
    parameters: { type: "object", properties: { on: { type: "boolean" } }, required: ["on"], additionalProperties: false },
  },
};
const called = await new ChatOpenAI({ ...fields, maxTokens: 300 }).bindTools([light], { tool_choice: "required" }).invoke("the quick");
assert.equal(called.tool_calls[0].name, "light");
assert.equal(typeof called.tool_calls[0].args.on, "boolean");
console.log("@langchain/openai works unchanged");
