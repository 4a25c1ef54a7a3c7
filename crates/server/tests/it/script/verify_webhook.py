"""Verifies what an outgoing webhook posted with PyPI standardwebhooks, and that a changed body is refused."""

import json
import os

from standardwebhooks import Webhook, WebhookVerificationError

webhook = Webhook(os.environ["SECRET"])
body, headers = os.environ["BODY"], json.loads(os.environ["HEADERS"])
print(json.dumps(webhook.verify(body, headers)))
try:
    webhook.verify(body.replace("{", "{ ", 1), headers)
    raise SystemExit("a changed body was believed")
except WebhookVerificationError:
    pass
