"""What every attack ends with: one line of JSON. It is a claim; the tests judge from the host where they can."""

import json
import os

NONCE = os.environ.get("NONCE", "")
CONTROL = os.environ.get("CONTROL") == "1"  # the wall is taken away inside: the attack must succeed


def tell(reached, tried):
    """``reached`` lists what worked; ``tried`` says how much was tried: nothing tried proves nothing."""
    print(json.dumps({"reached": [str(item)[:200] for item in reached][:20], "tried": int(tried)}), flush=True)
