"""Two honest sides over any stream: all arrives, once, in order; no window is exceeded and nobody waits for ever."""

from __future__ import annotations

from .peers import thorough
from .talk import Talk, TalkOverCutStreams

TestTalk = Talk.TestCase
TestTalk.settings = thorough(60, stateful_step_count=60)

TestTalkOverCutStreams = TalkOverCutStreams.TestCase
TestTalkOverCutStreams.settings = thorough(100, stateful_step_count=60)
