"""A connector built with PyPI's cloudevents and websockets, as other people write one."""

import asyncio
import json
import os
import urllib.request

import websockets
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent as CoreEvent
from cloudevents.v1.http import CloudEvent, from_json, to_json

BASE = os.environ["BASE_URL"]
DATA = {"connectorId": "py-1", "conversationId": "conv-py", "text": "hello"}


def events():
    # The older interface fills id and time by itself and gives no datacontenttype.
    yield to_json(CloudEvent({"type": "assistant.message.inbound", "source": "urn:connector:py-1"}, DATA)).decode()
    core = CoreEvent(
        attributes={
            "type": "assistant.message.inbound",
            "source": "urn:connector:py-1",
            "id": "core-1",
            "specversion": "1.0",
            "datacontenttype": "application/json",
            "traceparent": "00-abc-def-01",
        },
        data=DATA,
    )
    yield JSONFormat().write(core).decode()


async def main():
    with urllib.request.urlopen(f"{BASE}/connector") as answer:
        session = answer.read().decode()
    seen = {"same": [], "texts": [], "causes": []}
    async with websockets.connect(f"{BASE.replace('http', 'ws', 1)}/connector/{session}") as socket:
        await socket.send("ping")
        seen["pong"] = await socket.recv()
        for frame in events():
            answers = []
            for _ in range(2):
                await socket.send(frame)
                answers.append(await socket.recv())
            outbound = from_json(answers[0])
            seen["same"].append(answers[0] == answers[1])
            seen["texts"].append(outbound.data["text"])
            seen["causes"].append(outbound["causationid"] == json.loads(frame)["id"])
            seen["type"] = outbound["type"]
    try:
        async with websockets.connect(f"{BASE.replace('http', 'ws', 1)}/connector/nothing") as socket:
            await socket.recv()
    except websockets.exceptions.ConnectionClosed as closed:
        seen["refused"] = closed.rcvd.code
    print(json.dumps(seen))


asyncio.run(main())
