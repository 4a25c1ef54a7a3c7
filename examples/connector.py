"""A whole connector: lines in, answers out, and nothing lost when either side restarts.

    python3 connector.py                   # what you type is said, as one conversation, until its end or Ctrl-C
    python3 connector.py messages.jsonl    # {"id": "1", "conversationId": "kitchen", "text": "hello"}
It needs `pip install websockets`. CORTEX_URL is the server, CORTEX_KEY its key where it asks for one.
"""
import contextlib, json, os, signal, sys, threading, time, urllib.request, uuid
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

URL, NAME = os.environ.get("CORTEX_URL", "http://localhost:7751"), os.environ.get("CONNECTOR", "example-py")
waiting, seen, socket, is_over, pause = {}, set(), None, False, 1  # events without an answer by id; messages shown

def session():
    headers = {"Authorization": "Bearer " + os.environ["CORTEX_KEY"]} if "CORTEX_KEY" in os.environ else {}
    request = urllib.request.Request(f"{URL}/connector?connectorId={NAME}", headers=headers)
    return urllib.request.urlopen(request, timeout=10).read().decode()

def event(kind, id, **data):
    head = {"specversion": "1.0", "type": f"assistant.message.{kind}", "source": f"urn:connector:{NAME}", "id": id}
    return json.dumps({**head, "data": {"connectorId": NAME, **data}})

def read(lines):
    global is_over
    for line in lines:
        said = {"conversationId": "main", **(json.loads(line) if line.startswith("{") else {"text": line.strip()})}
        id = said.get("id") or str(uuid.uuid4())
        waiting[id] = event("inbound", id, conversationId=said["conversationId"], text=said["text"])
        with contextlib.suppress(WebSocketException):  # it is sent after the next connect
            socket and socket.send(waiting[id])
    is_over = True
    socket and not waiting and socket.close()

def hear(heard):
    data, cause = heard["data"], heard.get("causationid")
    if heard["type"] == "assistant.message.outbound":
        if heard["id"] not in seen:  # a message may come twice: show it once, ack it each time
            seen.add(heard["id"])
            print(f"{data['conversationId']}: {data['text']}", flush=True)
        socket.send(event("ack", str(uuid.uuid4()), messageId=heard["id"]))
        waiting.pop(cause, None)
    elif heard["type"] == "assistant.message.settled" and data["replies"] == 0:
        waiting.pop(cause, None)  # the assistant chose silence
    elif heard["type"] == "assistant.message.error":
        print(data["message"], file=sys.stderr)
        socket.close() if data["retryable"] else waiting.pop(cause, None)
    return data.get("retryAfterSeconds")

for end in (signal.SIGINT, signal.SIGTERM): signal.signal(end, lambda *_: os._exit(0))  # what was not acked comes again
threading.Thread(target=read, args=[open(sys.argv[1]) if sys.argv[1:] else sys.stdin], daemon=True).start()
while waiting or not is_over:
    try:
        with connect(f"{URL.replace('http', 'ws', 1)}/connector/{session()}?ack=1&receipts=1") as socket:
            for frame in list(waiting.values()):
                socket.send(frame)  # with its id of old: what was accepted before is not asked twice
            while waiting or not is_over:
                pause = hear(json.loads(socket.recv())) or 1
    except (OSError, WebSocketException) as error:
        print(f"away: {error}", file=sys.stderr)
        time.sleep(pause)
