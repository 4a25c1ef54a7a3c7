"""Signs a body as a sender with PyPI standardwebhooks does: now, too long ago, and too far ahead."""

import json
import os
from datetime import datetime, timedelta, timezone

from standardwebhooks import Webhook

webhook = Webhook(os.environ["SECRET"])
signed = {}
for name, off in {"now": 0, "old": -301 - 30, "ahead": 301 + 30}.items():
    moment = datetime.now(timezone.utc) + timedelta(seconds=off)
    message = f"msg_{name}"
    signed[name] = {
        "id": message,
        "timestamp": str(int(moment.timestamp())),
        "signature": webhook.sign(message, moment, os.environ["BODY"]),
    }
print(json.dumps(signed))
