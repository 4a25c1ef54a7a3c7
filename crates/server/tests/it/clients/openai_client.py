"""PyPI `openai` against a server: prints one line of JSON with what it saw."""
import json
import math
import os

from openai import AuthenticationError, BadRequestError, NotFoundError, OpenAI

base_url = os.environ["BASE_URL"]
client = OpenAI(base_url=base_url, api_key=os.environ["API_KEY"], max_retries=0)
seen = {}


def messages(content):
    return [{"role": "user", "content": content}]


chat = client.chat.completions.create(model="cortex", messages=messages("hello"), user="python")
seen["chat"] = chat.choices[0].message.content
seen["finish"] = chat.choices[0].finish_reason

seen["stream"] = ""
stream = client.chat.completions.create(
    model="cortex", messages=messages("streamed"), user="python", stream=True,
    stream_options={"include_usage": True},
)
for chunk in stream:
    if chunk.choices:
        seen["stream"] += chunk.choices[0].delta.content or ""
    if chunk.usage:
        seen["streamUsage"] = chunk.usage.total_tokens > 0

first = client.responses.create(model="cortex", input="first")
seen["response"] = first.output_text
seen["next"] = client.responses.create(model="cortex", input="next", previous_response_id=first.id).output_text
seen["events"] = []
seen["deltas"] = ""
for event in client.responses.create(model="cortex", input="flowing", stream=True):
    if event.type == "response.output_text.delta":
        seen["deltas"] += event.delta
    if not seen["events"] or seen["events"][-1] != event.type:
        seen["events"].append(event.type)
    if event.type == "response.completed":
        seen["completed"] = event.response.output_text

seen["models"] = [model.id for model in client.models.list()]
seen["model"] = client.models.retrieve("cortex").id

embedding = client.embeddings.create(model="cortex", input=["a dog", "a puppy"])
seen["vectors"] = [len(row.embedding) for row in embedding.data]
seen["ofLengthOne"] = abs(math.hypot(*embedding.data[0].embedding) - 1) < 0.001
floats = client.embeddings.create(model="cortex", input="a dog", encoding_format="float")
seen["same"] = all(abs(a - b) < 1e-6 for a, b in zip(floats.data[0].embedding, embedding.data[0].embedding))


def failure(kind, work):
    try:
        work()
        return "nothing"
    except Exception as error:
        return [isinstance(error, kind), error.status_code, error.code, error.param]


seen["unknown"] = failure(
    NotFoundError, lambda: client.chat.completions.create(model="no-such-model", messages=messages("hello"))
)
seen["wrongKey"] = failure(
    AuthenticationError, lambda: OpenAI(base_url=base_url, api_key="wrong", max_retries=0).models.list()
)
seen["bad"] = failure(BadRequestError, lambda: client.chat.completions.create(model="cortex", messages=[]))
print(json.dumps(seen))
