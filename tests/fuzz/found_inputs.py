"""Programs (conversation.py) that once broke an invariant, by the name of the cause. A case is never taken out."""

from __future__ import annotations

import base64
from typing import Final

FOUND: Final[dict[str, bytes]] = {
    # The mechanism's name was encoded as UTF-8 to compare it: 541.
    "login-mechanism-that-is-no-utf-8": base64.b64decode("0a8BilQe7K90zdNvefY0VQTq2g=="),
    # What came behind connection.close stayed with the connection.
    "frames-behind-connection-close": bytes.fromhex(
        "f9bfa98cbbfe801179100f31fff49b1f231f5a2f49787be393245591242666011d9515526ca0db21826c51813b2cbae5af3a69bebf6a"
        "ed257cf4abbe9623130d61522732447e002bd97764d74a8363398341f2d23fe78426bbe145dfbad27da8d4145b39d6fcba88e29f6da5"
        "75616be89ebd013ef78eff3f57a3d8b7656bf8bda0047192876c604977e5d1e86b494e847d4eb19d222348f0769d7d6c8e28cf3b07eb"
        "afd7c83e4ab8e390"
    ),
}
