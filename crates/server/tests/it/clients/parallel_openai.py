"""PyPI `openai`: many streams at once, in one conversation and in many. Prints what was heard that was not said to it."""
import asyncio
import json
import os

from openai import AsyncOpenAI

COUNT = int(os.environ["AT_ONCE"])
client = AsyncOpenAI(base_url=os.environ["BASE_URL"], api_key=os.environ["API_KEY"], max_retries=0)
foreign = []


async def chat(topic, text):
    stream = await client.chat.completions.create(
        model="cortex", messages=[{"role": "user", "content": text}], stream=True,
        extra_headers={"X-Cortex-Topic": topic},
    )
    return "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])


async def response(topic, text):
    stream = await client.responses.create(model="cortex", input=text, conversation=topic, stream=True)
    return "".join([event.delta async for event in stream if event.type == "response.output_text.delta"])


async def check(name, ask, topic_of):
    async def one(number):
        text = f"{name}-{number}-"
        heard = await ask(topic_of(number), text)
        if heard != f"You said: {text}":
            foreign.append([text, heard])

    await asyncio.gather(*(one(number) for number in range(COUNT)))


async def main():
    await check("one", chat, lambda number: "py-one")
    await check("many", chat, lambda number: f"py-many-{number}")
    await check("responses", response, lambda number: "py-responses")
    tokens = await client.embeddings.create(model="cortex", input=[[15339, 1917]], encoding_format="float")
    words = await client.embeddings.create(model="cortex", input=["hello world"], encoding_format="float")
    same = tokens.data[0].embedding == words.data[0].embedding
    print(json.dumps({"foreign": foreign, "streams": 3 * COUNT, "tokens": same}))


asyncio.run(main())
