"""PyPI `langchain-openai`: what works, what is refused, and many streams at once."""
import asyncio
import json
import os

from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from openai import BadRequestError

COUNT = int(os.environ["AT_ONCE"])
settings = {"base_url": os.environ["BASE_URL"], "api_key": os.environ["API_KEY"], "model": "cortex", "max_retries": 0}
seen = {"foreign": [], "streams": 0}


def model(topic, **more):
    return ChatOpenAI(**settings, default_headers={"X-Cortex-Topic": topic}, **more)


def failure(work):
    try:
        work()
        return "nothing"
    except BadRequestError as error:
        return [error.status_code, error.code, error.param]


async def check(name, topic_of, **more):
    async def one(number):
        text = f"{name}-{number}-"
        heard = "".join([chunk.text async for chunk in model(topic_of(number), **more).astream(text)])
        seen["streams"] += 1
        if heard != f"You said: {text}":
            seen["foreign"].append([text, heard])

    await asyncio.gather(*(one(number) for number in range(COUNT)))


async def main():
    chat = model("chain", temperature=0.7)
    seen["text"] = chat.invoke([("system", "be brief"), ("human", "hello")]).text
    seen["responses"] = model("chain", use_responses_api=True).invoke("next").text
    tool = {"type": "function", "function": {"name": "now", "description": "now", "parameters": {"type": "object"}}}
    seen["tools"] = failure(lambda: chat.bind_tools([tool]).invoke("hi"))
    schema = {"title": "a", "description": "a", "type": "object", "properties": {"a": {"type": "string"}}}
    seen["object"] = failure(lambda: chat.with_structured_output(schema, method="json_schema").invoke("hi"))
    seen["stop"] = failure(lambda: chat.invoke("hi", stop=["x"]))
    # The length check would fetch an encoding over the network; without it the words go as they are.
    words = OpenAIEmbeddings(**settings, check_embedding_ctx_length=False)
    seen["vector"] = len(words.embed_query("a dog"))
    await check("one", lambda number: "chain-one")
    await check("many", lambda number: f"chain-many-{number}")
    print(json.dumps(seen))


asyncio.run(main())
