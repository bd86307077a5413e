// OpenAI's Node SDK and the AI SDK against a running gateway: text, usage, tools, objects, abort.
// Both validate every chunk, the AI SDK by schemas. Where the gateway is comes from the environment.
import assert from "node:assert/strict";
import { test } from "node:test";

import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, Output, stepCountIs, streamText, tool } from "ai";
import OpenAI, { APIUserAbortError, AuthenticationError, NotFoundError } from "openai";
import { zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";

const { OPENAI_BASE_URL: baseURL, OPENAI_API_KEY: apiKey, MODEL: model } = process.env;

const ask = "What is the capital of France? Answer with one word.";
const tale = "Tell me a very long story about a river.";
const messages = [{ role: "user", content: ask }];
const greedy = { model, messages, temperature: 0, max_tokens: 60 };

const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const provider = createOpenAICompatible({
  name: "headrace",
  baseURL,
  apiKey,
  includeUsage: true,
  supportsStructuredOutputs: true,
});
const settings = { model: provider(model), temperature: 0, maxOutputTokens: 60, maxRetries: 0 };

// --- openai

test("openai: an answer, whole and streamed", async () => {
  const whole = await client.chat.completions.create(greedy);
  const { content } = whole.choices[0].message;
  assert.match(content, /Paris/);
  assert.ok(whole._request_id.startsWith("req_"));
  const stream = await client.chat.completions.create({
    ...greedy,
    stream: true,
    stream_options: { include_usage: true },
  });
  let text = "";
  let usage;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta.content ?? "";
    usage = chunk.usage ?? usage;
  }
  assert.equal(text, content);
  assert.equal(usage.completion_tokens, whole.usage.completion_tokens);
});

test("openai: the stream helper", async () => {
  const deltas = [];
  const stream = client.chat.completions.stream(greedy).on("content", (delta) => deltas.push(delta));
  assert.equal(await stream.finalContent(), deltas.join(""));
  assert.equal((await stream.finalChatCompletion()).choices[0].finish_reason, "stop");
});

test("openai: several choices, completions, models", async () => {
  const several = await client.chat.completions.create({ ...greedy, n: 2, seed: 7, temperature: 1 });
  assert.deepEqual(several.choices.map((choice) => choice.index), [0, 1]);
  const completion = await client.completions.create({ model, prompt: "1, 2, 3, 4,", temperature: 0, max_tokens: 4 });
  assert.match(completion.choices[0].text, /5/);
  const ids = [];
  for await (const each of client.models.list()) ids.push(each.id);
  assert.ok(ids.includes(model));
});

test("openai: error classes", async () => {
  await assert.rejects(client.chat.completions.create({ ...greedy, model: "gpt-9" }), (error) => {
    assert.ok(error instanceof NotFoundError);
    assert.equal(error.code, "model_not_found");
    assert.equal(error.param, "model");
    return true;
  });
  const stranger = new OpenAI({ baseURL, apiKey: "sk-wrong", maxRetries: 0 });
  await assert.rejects(stranger.models.list(), AuthenticationError);
});

test("openai: abort", async () => {
  const stream = await client.chat.completions.create({
    ...greedy,
    messages: [{ role: "user", content: tale }],
    max_tokens: 1500,
    stream: true,
  });
  let chunks = 0;
  for await (const _ of stream) {
    if (++chunks === 3) break; // closes the connection
  }
  assert.equal(chunks, 3);
  const controller = new AbortController();
  setTimeout(() => controller.abort(), 200);
  await assert.rejects(
    client.chat.completions.create({ ...greedy, temperature: 1, max_tokens: 1500, ignore_eos: true }, { signal: controller.signal }),
    APIUserAbortError,
  );
});

// --- @ai-sdk/openai-compatible

test("ai: generateText", async () => {
  const { text, usage, finishReason, response } = await generateText({ ...settings, prompt: ask });
  assert.match(text, /Paris/);
  assert.equal(finishReason, "stop");
  assert.ok(usage.inputTokens > 0 && usage.outputTokens > 0);
  assert.equal(response.modelId, model);
});

test("ai: streamText", async () => {
  const failures = [];
  const onError = ({ error }) => failures.push(error);
  const stream = streamText({ ...settings, system: "You are short.", prompt: ask, onError });
  const kinds = new Set();
  for await (const part of stream.fullStream) kinds.add(part.type);
  assert.deepEqual(failures, []);
  assert.ok(kinds.has("text-delta") && kinds.has("finish"));
  assert.equal(await stream.finishReason, "stop");
  assert.ok((await stream.usage).outputTokens > 0);
  assert.deepEqual(await stream.warnings, []);
});

test("ai: abort", async () => {
  const controller = new AbortController();
  const stream = streamText({ ...settings, prompt: tale, maxOutputTokens: 1500, abortSignal: controller.signal });
  let aborted = false;
  for await (const part of stream.fullStream) {
    if (part.type === "text-delta") controller.abort();
    aborted ||= part.type === "abort";
  }
  assert.ok(aborted);
});

// --- Tools and objects, forced: the small model would not choose them by itself.

const city = z.object({ city: z.enum(["Paris", "Rome"]), warm: z.boolean() });

test("ai: a tool that must be called", async () => {
  const weather = tool({ description: "The weather of a city", inputSchema: city });
  const asked = { ...settings, prompt: ask, maxOutputTokens: 100, tools: { weather }, toolChoice: "required" };
  const { toolCalls } = await generateText(asked);
  assert.equal(toolCalls[0].toolName, "weather");
  city.parse(toolCalls[0].input);
  const stream = streamText(asked);
  const kinds = new Set();
  for await (const part of stream.fullStream) kinds.add(part.type);
  assert.ok(kinds.has("tool-call") && !kinds.has("error"));
  assert.deepEqual((await stream.toolCalls)[0].input, toolCalls[0].input);
});

test("ai: an object of a schema", async () => {
  const output = Output.object({ schema: city });
  const answer = await generateText({ ...settings, prompt: ask, maxOutputTokens: 100, output });
  city.parse(answer.output);
});

test("openai: parse", async () => {
  const answer = await client.chat.completions.parse({
    ...greedy,
    max_tokens: 100,
    response_format: zodResponseFormat(city, "city"),
  });
  city.parse(answer.choices[0].message.parsed);
});

// --- @ai-sdk/openai: the Responses API

const responses = { ...settings, model: createOpenAI({ baseURL, apiKey }).responses(model) };

test("ai responses: generateText and streamText", async () => {
  const whole = await generateText({ ...responses, prompt: ask });
  assert.match(whole.text, /Paris/);
  assert.equal(whole.finishReason, "stop");
  const failures = [];
  const stream = streamText({ ...responses, prompt: ask, onError: ({ error }) => failures.push(error) });
  assert.equal(await stream.text, whole.text);
  assert.deepEqual(failures, []);
  assert.equal((await stream.usage).outputTokens, whole.usage.outputTokens);
  assert.deepEqual(await stream.warnings, []);
});

test("ai responses: a tool whose output is answered in a second step", async () => {
  const execute = () => "It is sunny.";
  const weather = tool({ description: "The weather of a city", inputSchema: city, execute });
  const prepareStep = ({ stepNumber }) => ({ toolChoice: stepNumber === 0 ? "required" : "none" });
  const asked = { ...responses, prompt: ask, maxOutputTokens: 100, tools: { weather }, prepareStep, stopWhen: stepCountIs(2) };
  for (const { steps } of [await generateText(asked), { steps: await streamText(asked).steps }]) {
    assert.deepEqual(steps.map((step) => step.finishReason), ["tool-calls", "stop"]);
    city.parse(steps[0].toolCalls[0].input);
    assert.equal(steps[0].toolResults[0].output, "It is sunny.");
    assert.ok(steps[1].text);
  }
});

test("ai responses: an object of a schema, whole and streamed", async () => {
  const asked = { ...responses, prompt: ask, maxOutputTokens: 100, output: Output.object({ schema: city }) };
  const { output } = await generateText(asked);
  city.parse(output);
  assert.deepEqual(await streamText(asked).output, output);
});
