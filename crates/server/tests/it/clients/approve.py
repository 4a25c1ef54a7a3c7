"""A client that knows seed 003 and nothing else: it shows text, and sends what a person types."""
import asyncio
import json
import os
import re
import urllib.request
import uuid

import websockets

BASE, KEY = os.environ["BASE_URL"], os.environ["KEY"]


def said(text):
    return json.dumps(
        {
            "specversion": "1.0",
            "type": "assistant.message.inbound",
            "source": "urn:connector:plain",
            "id": str(uuid.uuid4()),
            "time": "2026-02-23T14:00:00Z",
            "datacontenttype": "application/json",
            "data": {"connectorId": "plain", "conversationId": "kitchen", "text": text},
        }
    )


async def main():
    request = urllib.request.Request(f"{BASE}/connector", headers={"Authorization": f"Bearer {KEY}"})
    with urllib.request.urlopen(request) as answer:
        session = answer.read().decode()
    url = f"{BASE.replace('http', 'ws', 1)}/connector/{session}"
    shown, ids = [], []
    async with websockets.connect(url, subprotocols=["cloudevents.json"]) as socket:
        await socket.send(said("stretch daily"))
        while "There you are." not in shown:
            event = json.loads(await socket.recv())
            ids.append(uuid.UUID(event["id"]))
            shown.append(event["data"]["text"])
            typed = re.search(r"To answer, send (\S+:approve) or \S+:deny$", shown[-1])
            if typed:
                await socket.send(said(typed.group(1)))
        seen = {
            "subprotocol": socket.subprotocol,
            "session": uuid.UUID(session).version,
            "versions": sorted({id.version for id in ids}),
            "variants": sorted({id.variant for id in ids}),
            "question": shown[0].split("\n")[0].split(" Next:")[0],
        }
    print(json.dumps(seen))


asyncio.run(main())
