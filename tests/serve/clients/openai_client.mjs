// What the official client does with heed's server; the base URL is the only argument.
import assert from "node:assert/strict";
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.argv[2], apiKey: "none", maxRetries: 0 });

const models = (await client.models.list()).data.map((model) => model.id);
assert.deepEqual(models, ["lm"]);

const options = { model: "lm", prompt: "the fox", max_tokens: 8, seed: 1 };
const whole = await client.completions.create(options);
// The model may end its text earlier, and the reason says so.
const { completion_tokens: tokens } = whole.usage;
assert.ok(tokens > 0 && tokens <= 8);
assert.ok((tokens === 8 ? ["length", "stop"] : ["stop"]).includes(whole.choices[0].finish_reason)); // the last token may be the end token
let text = "";
for await (const piece of await client.completions.create({ ...options, stream: true })) {
  text += piece.choices[0].text;
}
assert.equal(text, whole.choices[0].text);

const messages = [{ role: "user", content: "the quick brown fox" }];
const chat = { model: "lm", messages, max_tokens: 12, seed: 2 };
const answer = await client.chat.completions.create(chat);
assert.equal(answer.choices[0].message.role, "assistant");
text = "";
let usage;
for await (const chunk of await client.chat.completions.create({
  ...chat,
  stream: true,
  stream_options: { include_usage: true },
})) {
  text += chunk.choices[0]?.delta?.content ?? "";
  usage = chunk.usage ?? usage;
}
assert.equal(text, answer.choices[0].message.content);
assert.equal(usage.completion_tokens, answer.usage.completion_tokens);

const response = await client.responses.create({ model: "lm", input: "the quick", max_output_tokens: 6 });
assert.ok(response.usage.output_tokens > 0 && response.usage.output_tokens <= 6);
await assert.rejects(client.chat.completions.create({ ...chat, model: "nothing" }), OpenAI.NotFoundError);
await assert.rejects(client.chat.completions.create({ ...chat, top_p: -1 }), OpenAI.BadRequestError);
console.log("openai for Node works unchanged");
