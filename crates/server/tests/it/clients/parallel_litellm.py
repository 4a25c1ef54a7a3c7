"""PyPI `litellm`: what works, what is refused, and many streams at once."""
import asyncio
import json
import os

# Its list of prices would come over the network.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
import litellm

COUNT = int(os.environ["AT_ONCE"])
settings = {
    "model": "openai/cortex", "api_base": os.environ["BASE_URL"], "api_key": os.environ["API_KEY"], "max_retries": 0,
    "num_retries": 0,
}
seen = {"foreign": [], "streams": 0}


def messages(text):
    return [{"role": "user", "content": text}]


def failure(**more):
    try:
        litellm.completion(**settings, messages=messages("hi"), **more)
        return "nothing"
    except litellm.BadRequestError as error:
        return [error.status_code, "is not supported" in str(error)]


async def check(name, topic_of):
    async def one(number):
        text = f"{name}-{number}-"
        stream = await litellm.acompletion(
            **settings, messages=messages(text), stream=True, extra_headers={"X-Cortex-Topic": topic_of(number)}
        )
        heard = "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])
        seen["streams"] += 1
        if heard != f"You said: {text}":
            seen["foreign"].append([text, heard])

    await asyncio.gather(*(one(number) for number in range(COUNT)))


async def main():
    seen["text"] = litellm.completion(**settings, messages=messages("hello"), user="lite").choices[0].message.content
    seen["stop"] = failure(stop=["x"])
    seen["object"] = failure(response_format={"type": "json_object"})
    seen["n"] = failure(n=2)
    vector = litellm.embedding(**settings, input=["a dog"], encoding_format="float").data[0]["embedding"]
    seen["vector"] = len(vector)
    await check("one", lambda number: "lite-one")
    await check("many", lambda number: f"lite-many-{number}")
    print(json.dumps(seen))


asyncio.run(main())
